//! Which kernel files are written a second time for one instruction set.

use crate::MetalTier;

/// A kernel file that stands in for a portable one: the same entry points with the same bindings and parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Override {
    /// The portable file.
    pub portable: &'static str,
    /// The file that replaces it.
    pub file: &'static str,
    /// The instruction set that it is written in: CUDA's name of it, or a [`MetalTier`]'s.
    pub architecture: &'static str,
    /// For which shapes and formats.
    pub serves: &'static str,
}

/// Every override. A plan chooses by shape and format alone (`lily-gpu`, `plan/prefill/routes.rs`); a file that is not here
/// runs everywhere. `gdn_chunk_prepare` and `gdn_chunk_scan` are no overrides but another algorithm for `gdn_scan`'s work.
pub const OVERRIDES: [Override; 6] = [
    Override {
        portable: "gemm",
        file: "gemm_wgmma",
        architecture: "sm_90a",
        serves: "4-bit weights in groups of 64 with bf16 scales, widths of 128 n; x stored permuted",
    },
    Override {
        portable: "expert_gemm",
        file: "expert_gemm_wgmma",
        architecture: "sm_90a",
        serves: "the same, for all experts of a layer and the shared one; x and h stored permuted",
    },
    Override {
        portable: "attention_rows",
        file: "attention_rows_wgmma",
        architecture: "sm_90a",
        serves: "heads of 256",
    },
    Override {
        portable: "gemm",
        file: "gemm_tensor",
        architecture: MetalTier::Tensor.name(),
        serves: "every format and width of the portable file",
    },
    Override {
        portable: "expert_gemm",
        file: "expert_gemm_tensor",
        architecture: MetalTier::Tensor.name(),
        serves: "every format and width of the portable file",
    },
    Override {
        portable: "attention_rows",
        file: "attention_rows_tensor",
        architecture: MetalTier::Tensor.name(),
        serves: "heads of 256",
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Specialisation, entries, find};

    /// A specialisation with 128 wherever a value is asked for: only its text matters.
    fn any(file: &str) -> Specialisation {
        let file = find(file).unwrap_or_else(|| panic!("no file {file}"));
        let given: Vec<(&str, i64)> =
            file.constants.iter().filter(|one| one.default.is_none()).map(|one| (one.name, 128)).collect();
        Specialisation::new(file, &given).expect("complete")
    }

    #[test]
    fn an_override_has_the_entries_bindings_and_parameters_of_what_it_replaces() {
        for Override { portable, file, .. } in OVERRIDES {
            let (portable, own) = (any(portable), any(file));
            assert!(own.file().cuda_only != own.file().metal_only, "{file}");
            assert_eq!(entries(portable.file()), entries(own.file()), "{file}");
            for entry in entries(own.file()) {
                let [wanted, found] = [&portable, &own]
                    .map(|one| one.signature(&entry).unwrap_or_else(|error| panic!("{error}")));
                assert_eq!(found.params, wanted.params, "{file} {entry}");
                let names = |signature: &crate::Signature| -> Vec<_> {
                    signature.bindings.iter().map(|one| (one.name.clone(), one.access)).collect()
                };
                assert_eq!(names(&found), names(&wanted), "{file} {entry}");
            }
        }
    }
}
