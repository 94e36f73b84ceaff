//! Whole-number expressions in a kernel's text: how many threads an entry point has, how far a launch reaches into a buffer.

use std::collections::HashMap;

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Name {
    /// A constant.
    Value(i64),
    /// Something of a launch, by its place among the values that [`Expression::evaluate`] is given.
    Variable(usize),
}

/// A parsed expression; what is constant in it is worked out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Expression {
    Number(i64),
    Variable(usize),
    Apply(Operation, Vec<Expression>),
}

/// Operators and functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Less,
    Equal,
    /// `min(a, b)`.
    Least,
    /// `max(a, b)`.
    Most,
    /// `up(a, b)`: a / b rounded up.
    Up,
    /// `if(condition, a, b)`: a unless the condition is 0.
    If,
    /// `side(width)`: rows of a matrix of that width that a simdgroup has side by side (`Span` in gemv.h).
    Side,
    /// `words(n, bits)`: words that n codes take.
    Words,
    /// `groups(n, bits, group)`: scales of n codes; plain elements of 16 bits have none.
    Groups,
    /// `tg4(n)`: bytes of a threadgroup array of n elements of four bytes.
    ArrayOf4,
    /// `tg2(n)`: the same of two bytes.
    ArrayOf2,
    /// `tile(rows)`: bytes of a matrix tile, with the padding that it has on Metal.
    Tile,
}

impl Operation {
    fn named(name: &str) -> Option<(Self, usize)> {
        Some(match name {
            "min" => (Self::Least, 2),
            "max" => (Self::Most, 2),
            "up" => (Self::Up, 2),
            "if" => (Self::If, 3),
            "side" => (Self::Side, 1),
            "words" => (Self::Words, 2),
            "groups" => (Self::Groups, 3),
            "tg4" => (Self::ArrayOf4, 1),
            "tg2" => (Self::ArrayOf2, 1),
            "tile" => (Self::Tile, 1),
            _ => return None,
        })
    }

    /// The arguments' number was checked when the expression was read.
    fn apply(self, values: &[i64]) -> Result<i64, String> {
        let at = |place: usize| values.get(place).copied().unwrap_or(0);
        let (a, b) = (at(0), at(1));
        let divided = |a: i64, b: i64| a.checked_div(b).ok_or("division by zero");
        let product = |a: i64, b: i64| a.checked_mul(b).ok_or("overflow");
        Ok(match self {
            Self::Add => a.checked_add(b).ok_or("overflow")?,
            Self::Subtract => a.checked_sub(b).ok_or("overflow")?,
            Self::Multiply => product(a, b)?,
            Self::Divide => divided(a, b)?,
            Self::Remainder => a.checked_rem(b).ok_or("division by zero")?,
            Self::Less => i64::from(a < b),
            Self::Equal => i64::from(a == b),
            Self::Least => a.min(b),
            Self::Most => a.max(b),
            Self::Up => divided(a, b)? + i64::from(a % b != 0),
            Self::If => at(if a == 0 { 2 } else { 1 }),
            Self::Side => {
                let chunks = a / 32;
                let lanes = [16, 8, 4, 2, 1].into_iter().find(|&lanes| chunks > lanes);
                32 / lanes.map_or(1, |lanes| 2 * lanes)
            }
            Self::Words => product(a, b)? / 32,
            Self::Groups if b == 16 => 0,
            Self::Groups => divided(a, at(2))?,
            Self::ArrayOf4 => product(a, 4)?.checked_add(15).ok_or("overflow")? / 16 * 16,
            Self::ArrayOf2 => product(a, 2)?.checked_add(15).ok_or("overflow")? / 16 * 16,
            Self::Tile => product(a, 144)?,
        })
    }
}

impl Expression {
    /// Reads comparisons, `+ - * / %`, parentheses and functions over numbers, names and macros without arguments.
    pub(super) fn parse(
        text: &str,
        name: &dyn Fn(&str) -> Option<Name>,
        macros: &HashMap<&str, &str>,
    ) -> Result<Self, String> {
        let mut reader = Reader { rest: text, name, macros, depth: 0 };
        let value = reader.comparison()?;
        match reader.rest.trim() {
            "" => Ok(value),
            rest => Err(format!("cannot read `{rest}`")),
        }
    }

    /// The value for a launch's variables.
    pub(super) fn evaluate(&self, variables: &[i64]) -> Result<i64, String> {
        match self {
            Self::Number(value) => Ok(*value),
            Self::Variable(place) => {
                variables.get(*place).copied().ok_or_else(|| format!("variable {place} is missing"))
            }
            Self::Apply(operation, parts) => {
                let values: Vec<i64> =
                    parts.iter().map(|part| part.evaluate(variables)).collect::<Result<_, _>>()?;
                operation.apply(&values)
            }
        }
    }

    /// The value where not all variables are known; nothing if it depends on one that is not.
    pub(super) fn evaluate_known(&self, variables: &[Option<i64>]) -> Result<Option<i64>, String> {
        match self {
            Self::Number(value) => Ok(Some(*value)),
            Self::Variable(place) => Ok(variables.get(*place).copied().flatten()),
            Self::Apply(operation, parts) => {
                let values = parts.iter().map(|part| part.evaluate_known(variables));
                let values: Option<Vec<i64>> = values.collect::<Result<Option<_>, _>>()?;
                values.map(|values| operation.apply(&values)).transpose()
            }
        }
    }

    fn applied(operation: Operation, parts: Vec<Self>) -> Result<Self, String> {
        let numbers: Option<Vec<i64>> = parts
            .iter()
            .map(|part| match part {
                Self::Number(value) => Some(*value),
                _ => None,
            })
            .collect();
        match numbers {
            Some(numbers) => operation.apply(&numbers).map(Self::Number),
            None => Ok(Self::Apply(operation, parts)),
        }
    }
}

/// The value of an expression of constants alone.
pub(super) fn evaluate(
    text: &str,
    constant: &dyn Fn(&str) -> Option<i64>,
    macros: &HashMap<&str, &str>,
) -> Result<i64, String> {
    Expression::parse(text, &|name| constant(name).map(Name::Value), macros)?.evaluate(&[])
}

struct Reader<'a> {
    rest: &'a str,
    name: &'a dyn Fn(&str) -> Option<Name>,
    macros: &'a HashMap<&'a str, &'a str>,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn next_is(&mut self, token: &str) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn comparison(&mut self) -> Result<Expression, String> {
        let value = self.sum()?;
        let operation = if self.next_is("==") {
            Operation::Equal
        } else if self.next_is("<") {
            Operation::Less
        } else {
            return Ok(value);
        };
        Expression::applied(operation, vec![value, self.sum()?])
    }

    fn sum(&mut self) -> Result<Expression, String> {
        let mut value = self.product()?;
        loop {
            let operation = if self.next_is("+") {
                Operation::Add
            } else if self.next_is("-") {
                Operation::Subtract
            } else {
                return Ok(value);
            };
            value = Expression::applied(operation, vec![value, self.product()?])?;
        }
    }

    fn product(&mut self) -> Result<Expression, String> {
        let mut value = self.atom()?;
        loop {
            let operation = if self.next_is("*") {
                Operation::Multiply
            } else if self.next_is("/") {
                Operation::Divide
            } else if self.next_is("%") {
                Operation::Remainder
            } else {
                return Ok(value);
            };
            value = Expression::applied(operation, vec![value, self.atom()?])?;
        }
    }

    fn atom(&mut self) -> Result<Expression, String> {
        if self.next_is("(") {
            let value = self.comparison()?;
            return if self.next_is(")") { Ok(value) } else { Err("a parenthesis stays open".to_owned()) };
        }
        let end =
            self.rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        if let Ok(number) = word.parse() {
            return Ok(Expression::Number(number));
        }
        if let Some((operation, arguments)) = Operation::named(word)
            && self.next_is("(")
        {
            return self.call(word, operation, arguments);
        }
        match (self.name)(word) {
            Some(Name::Value(value)) => return Ok(Expression::Number(value)),
            Some(Name::Variable(place)) => return Ok(Expression::Variable(place)),
            None => {}
        }
        let text: &'a str = self.macros.get(word).copied().ok_or_else(|| format!("`{word}` has no value"))?;
        if self.depth == 16 {
            return Err(format!("`{word}` is defined by itself"));
        }
        let mut inner = Reader { rest: text, depth: self.depth + 1, ..*self };
        let value = inner.comparison()?;
        match inner.rest.trim() {
            "" => Ok(value),
            rest => Err(format!("`{word}`: cannot read `{rest}`")),
        }
    }

    /// The arguments of a function, after its parenthesis.
    fn call(&mut self, name: &str, operation: Operation, count: usize) -> Result<Expression, String> {
        let mut parts = vec![self.comparison()?];
        while self.next_is(",") {
            parts.push(self.comparison()?);
        }
        if !self.next_is(")") || parts.len() != count {
            return Err(format!("`{name}` takes {count} values in parentheses"));
        }
        Expression::applied(operation, parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_errors() {
        let macros = HashMap::from([("THREADS", "(N + 1) * 32"), ("LOOP", "LOOP + 1"), ("CAST", "(uint)N")]);
        let value = |text: &str| evaluate(text, &|name| (name == "N").then_some(8), &macros);
        assert_eq!(value("N * 32"), Ok(256));
        assert_eq!(value("2 + 3 * 4 - 6 / 2 % 2"), Ok(13));
        assert_eq!(value("THREADS / 2"), Ok(144));
        assert_eq!(value("M"), Err("`M` has no value".to_owned()));
        assert_eq!(value("1 / 0"), Err("division by zero".to_owned()));
        assert!(value("LOOP").is_err() && value("CAST").is_err() && value("(1").is_err());
    }

    #[test]
    fn functions() {
        let value = |text: &str| evaluate(text, &|_| None, &HashMap::new());
        for (text, wanted) in [
            ("min(3, 4) + max(3, 4)", 7),
            ("up(7, 4)", 2),
            ("up(8, 4)", 2),
            ("if(1 < 2, 10, 20)", 10),
            ("if(2 == 3, 10, 20)", 20),
            ("side(2048)", 1),
            ("side(320)", 2),
            ("side(64)", 16),
            ("words(64, 4)", 8),
            ("groups(128, 4, 64)", 2),
            ("groups(128, 16, 64)", 0),
            ("tg4(1) + tg2(9)", 48),
            ("tile(16)", 2304),
        ] {
            assert_eq!(value(text), Ok(wanted), "{text}");
        }
        assert!(value("min(1)").is_err() && value("up(1, 0)").is_err() && value("if(1, 2").is_err());
    }

    #[test]
    fn a_launch_gives_variables_their_values() {
        let name = |name: &str| (name == "rows").then_some(Name::Variable(0));
        let read = Expression::parse("(rows - 1) * 2 + 3 * 4", &name, &HashMap::new()).expect("read");
        assert_eq!((read.evaluate(&[5]), read.evaluate(&[1])), (Ok(20), Ok(12)));
        assert!(read.evaluate(&[]).is_err());
    }
}
