//! What a grammar may ask of the sampler.

use crate::{TokenId, TokenMask};

/// A constraint could not go on; the generation fails with [`crate::GenerationError::Constraint`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConstraintError(pub String);

/// Decides which tokens may come next: a grammar, a JSON schema, a fixed choice.
///
/// The engine asks for the mask before each token, chooses among the allowed tokens (a hard limit: no bias overrides
/// it) and reports the choice. Stop ids are tokens like others here: the mask must allow one where the answer may end.
pub trait TokenConstraint: Send + Sync {
    /// Fills in which tokens may come next. The mask arrives with everything allowed.
    ///
    /// # Errors
    /// The constraint cannot say; the generation fails.
    fn mask(&mut self, mask: &mut TokenMask) -> Result<(), ConstraintError>;

    /// Takes note of the chosen token.
    ///
    /// # Errors
    /// The token is not one that the constraint allows; the generation fails.
    fn accept(&mut self, token: TokenId) -> Result<(), ConstraintError>;

    /// True when nothing can follow: the answer ends as if a stop id had been chosen.
    fn is_complete(&self) -> bool {
        false
    }

    /// An independent copy in the same state.
    fn clone_box(&self) -> Box<dyn TokenConstraint>;
}

impl Clone for Box<dyn TokenConstraint> {
    fn clone(&self) -> Self {
        (**self).clone_box()
    }
}

impl std::fmt::Debug for dyn TokenConstraint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TokenConstraint")
    }
}
