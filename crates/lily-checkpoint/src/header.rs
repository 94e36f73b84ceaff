//! The header of a safetensors file.
//!
//! A parser of its own rather than the `safetensors` crate's, because errors must name the tensor and the file, a name
//! given twice must be found (a JSON map keeps the last in silence), and nothing may require alignment.

use crate::dtype::StoredDtype;
use serde::{
    Deserialize, Deserializer,
    de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use std::{borrow::Cow, collections::HashSet, fmt, ops::Range};

/// The longest header that the format allows, in bytes.
const MAX_HEADER: u64 = 100_000_000;
/// More dimensions than any tensor of a real file has.
const MAX_RANK: usize = 8;

/// One tensor of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredTensor {
    /// Name as stored.
    pub name: String,
    /// Element type.
    pub dtype: StoredDtype,
    /// Dimensions, outermost first.
    pub shape: Vec<usize>,
    /// Where its bytes lie in the file.
    pub range: Range<usize>,
}

/// A checked header: the tensors' bytes lie one after another, without overlap or hole, to the end of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SafetensorsHeader {
    /// The tensors in the order of their bytes.
    pub tensors: Vec<StoredTensor>,
}

/// Why a file is not a safetensors file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// The file ends before its header or its tensors do.
    #[error("the file has {found} bytes, {expected} are described")]
    Truncated {
        /// Bytes that it has.
        found: u64,
        /// Bytes that it should have.
        expected: u64,
    },
    /// The header contradicts itself or the format.
    #[error("{0}")]
    Damaged(String),
}

impl SafetensorsHeader {
    /// Reads and checks the header of a whole file's bytes. No tensor's bytes are touched.
    ///
    /// # Errors
    /// [`HeaderError`], whatever the bytes are.
    pub fn parse(file: &[u8]) -> Result<Self, HeaderError> {
        let damaged = |problem: String| Err(HeaderError::Damaged(problem));
        let found = file.len() as u64;
        let Some((length, rest)) = file.split_first_chunk::<8>() else {
            return Err(HeaderError::Truncated { found, expected: 8 });
        };
        let length = u64::from_le_bytes(*length);
        if length > MAX_HEADER {
            return damaged(format!("its length field says {length} bytes, the format allows {MAX_HEADER}"));
        }
        let Some(json) = rest.get(..length as usize) else {
            return Err(HeaderError::Truncated { found, expected: 8 + length });
        };
        if json.first() != Some(&b'{') {
            return damaged("it does not begin with `{`".to_owned());
        }
        let entries = match serde_json::from_slice::<Entries<'_>>(json) {
            Ok(Entries(entries)) => entries,
            Err(error) => return damaged(error.to_string()),
        };
        let start = 8 + length;
        let mut tensors = entries
            .into_iter()
            .map(|(name, entry)| entry.check(&name, start))
            .collect::<Result<Vec<_>, _>>()?;
        // Empty tensors sort before the one that begins where they are.
        tensors.sort_by_key(|t| (t.range.start, t.range.end));
        check_layout(&tensors, start, found)?;
        Ok(Self { tensors })
    }
}

fn check_layout(tensors: &[StoredTensor], start: u64, found: u64) -> Result<(), HeaderError> {
    let mut end = start;
    for tensor in tensors {
        let (name, begin) = (&tensor.name, tensor.range.start as u64);
        if begin != end {
            let problem = if begin < end {
                format!("the bytes of `{name}` overlap those of the tensor before it")
            } else {
                format!("{} bytes before `{name}` belong to no tensor", begin - end)
            };
            return Err(HeaderError::Damaged(problem));
        }
        end = tensor.range.end as u64;
    }
    if end > found {
        return Err(HeaderError::Truncated { found, expected: end });
    }
    if end < found {
        return Err(HeaderError::Damaged(format!(
            "{} bytes after the last tensor belong to none",
            found - end
        )));
    }
    Ok(())
}

/// The JSON object of a header, names in the file's order, `__metadata__` left out.
struct Entries<'a>(Vec<(Cow<'a, str>, Entry<'a>)>);

#[derive(Deserialize)]
struct Entry<'a> {
    #[serde(borrow)]
    dtype: Cow<'a, str>,
    shape: Shape,
    data_offsets: (u64, u64),
}

impl Entry<'_> {
    fn check(self, name: &str, start: u64) -> Result<StoredTensor, HeaderError> {
        let damaged = |problem: String| HeaderError::Damaged(format!("tensor `{name}`: {problem}"));
        let dtype = StoredDtype::named(&self.dtype)
            .ok_or_else(|| damaged(format!("unknown element type `{}`", self.dtype)))?;
        let shape = self.shape.0;
        let (begin, end) = self.data_offsets;
        let elements = shape.iter().try_fold(1_u64, |product, &dim| product.checked_mul(dim));
        let bits = elements.and_then(|elements| elements.checked_mul(dtype.bits()));
        let bits = bits.ok_or_else(|| damaged(format!("the product of its shape {shape:?} overflows")))?;
        if end < begin {
            return Err(damaged(format!("its bytes end at {end}, before they begin at {begin}")));
        }
        if !bits.is_multiple_of(8) || bits / 8 != end - begin {
            let dtype = dtype.name();
            return Err(damaged(format!(
                "its data_offsets [{begin}, {end}] span {} bytes, a shape of {shape:?} with type {dtype} takes {}",
                end - begin,
                bits.div_ceil(8)
            )));
        }
        let place = |offset: u64| offset.checked_add(start).and_then(|place| usize::try_from(place).ok());
        let too_far = || damaged(format!("its data_offsets [{begin}, {end}] are out of range"));
        let range = place(begin).ok_or_else(too_far)?..place(end).ok_or_else(too_far)?;
        let shape = shape
            .into_iter()
            .map(|dim| usize::try_from(dim).map_err(|_| too_far()))
            .collect::<Result<_, _>>()?;
        Ok(StoredTensor { name: name.to_owned(), dtype, shape, range })
    }
}

struct Shape(Vec<u64>);

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ShapeVisitor;

        impl<'de> Visitor<'de> for ShapeVisitor {
            type Value = Shape;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a list of dimensions")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Shape, A::Error> {
                let mut shape = Vec::new();
                while let Some(dim) = list.next_element()? {
                    if shape.len() == MAX_RANK {
                        return Err(A::Error::custom(format!(
                            "a shape with more than {MAX_RANK} dimensions"
                        )));
                    }
                    shape.push(dim);
                }
                Ok(Shape(shape))
            }
        }

        deserializer.deserialize_seq(ShapeVisitor)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Entries<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EntriesVisitor;

        impl<'de> Visitor<'de> for EntriesVisitor {
            type Value = Entries<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "an object of tensors by name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<'de>, A::Error> {
                let (mut entries, mut seen) = (Vec::new(), HashSet::new());
                while let Some(Key(name)) = map.next_key()? {
                    if !seen.insert(name.clone()) {
                        return Err(A::Error::custom(format!("`{name}` is there twice")));
                    }
                    if name == "__metadata__" {
                        map.next_value::<IgnoredAny>()?;
                    } else {
                        entries.push((name, map.next_value()?));
                    }
                }
                Ok(Entries(entries))
            }
        }

        deserializer.deserialize_map(EntriesVisitor)
    }
}

#[derive(Deserialize)]
#[serde(transparent)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);
