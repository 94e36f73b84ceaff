//! Which experts each token goes to, fixed from outside.

/// One choice of experts per position and layer, for running two paths through the same experts: the router's order
/// at near ties is a matter of rounding, and one other expert moves a hidden state far more than rounding does.
///
/// A backend that takes one sends the token at `position` (counted from the start of its sequence) in `layer` to
/// [`ExpertChoices::of`] instead of the router's own best, with the router's own probabilities as weights
/// (renormalised as usual).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpertChoices {
    layers: usize,
    per_token: usize,
    experts: Vec<usize>,
}

impl ExpertChoices {
    /// Choices `[positions, layers, per_token]`, row-major.
    ///
    /// # Panics
    /// If `experts` is no whole number of positions.
    pub fn new(layers: usize, per_token: usize, experts: Vec<usize>) -> Self {
        assert_eq!(
            experts.len() % (layers * per_token),
            0,
            "whole positions of {layers} layers, {per_token} experts each"
        );
        Self { layers, per_token, experts }
    }

    /// Positions that have a choice.
    pub fn positions(&self) -> usize {
        self.experts.len() / (self.layers * self.per_token)
    }

    /// The experts of one position in one layer; `None` beyond the last position: the router chooses.
    pub fn of(&self, layer: usize, position: usize) -> Option<&[usize]> {
        let start = (position * self.layers + layer) * self.per_token;
        self.experts.get(start..start + self.per_token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn position_then_layer_then_place() {
        let choices = ExpertChoices::new(2, 3, (0..12).collect());
        assert_eq!(choices.positions(), 2);
        assert_eq!(choices.of(1, 0), Some(&[3, 4, 5][..]));
        assert_eq!(choices.of(0, 1), Some(&[6, 7, 8][..]));
        assert_eq!(choices.of(0, 2), None);
    }
}
