//! Launch shapes that were measured on this machine, in a file that later runs read.
//!
//! One file per device and model dimensions, in the folder `tuned` of the cache. Its lines say for what it was measured:
//! another driver or system, or other kernels, make it stale; a sum at its end shows damage. Both are told and ignored.

use super::{Chip, Shapes, Slot};
use crate::Device;
use lily_checkpoint::ModelConfig;
use lily_kernels::{Platform, Specialisation, catalog};
use std::{
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
};

/// First line of a file.
const HEAD: &str = "lily tuned launch shapes, version 1";
/// Of the files' names.
const EXTENSION: &str = "shapes";

/// What was measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tuned {
    /// Slots whose values are not the table's.
    pub winners: Vec<(Slot, Vec<usize>)>,
}

/// Why a file is of no use.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TunedError {
    /// It was measured for something else.
    #[error("it was measured with another {0}")]
    Stale(&'static str),
    /// It is not what was written.
    #[error("it is damaged: {0}")]
    Damaged(String),
    /// The system's words.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// For what shapes are measured.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Key {
    /// The device with its driver or system, as it describes itself.
    device: String,
    /// Dimensions of the model.
    model: String,
    /// A hash of all kernels' texts.
    kernels: String,
}

impl Key {
    fn new(device: &dyn Device, config: &ModelConfig) -> Self {
        // Several lines would be several entries of the file.
        let device_line = device.describe().replace(['\n', '\r'], " ");
        Self { device: device_line, model: dimensions(config), kernels: kernels_hash(device.platform()) }
    }

    fn lines(&self) -> [(&'static str, &str); 3] {
        [("device", &self.device), ("model", &self.model), ("kernels", &self.kernels)]
    }
}

/// Dimensions of a model, as far as launch shapes care.
fn dimensions(config: &ModelConfig) -> String {
    let (moe, attention, gdn) = (&config.moe, &config.attention, &config.gated_delta_net);
    let numbers = [
        config.hidden_size,
        config.layers.len(),
        config.vocab_size,
        attention.heads,
        attention.kv_heads,
        gdn.key_heads,
        gdn.value_heads,
        moe.experts,
        moe.inner,
        moe.shared_inner,
    ];
    numbers.map(|number| number.to_string()).join("x")
}

/// The file of a device (without its driver) and a model's dimensions.
fn file_name(device: &dyn Device, config: &ModelConfig) -> String {
    let described = device.describe();
    let name = described.split([',', '(']).next().unwrap_or_default().trim().to_lowercase();
    let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    format!("{name}-{}.{EXTENSION}", fnv1a(&[&dimensions(config)]))
}

impl Tuned {
    /// What is kept for a device and a model; `None` if nothing is.
    ///
    /// # Errors
    /// [`TunedError`] for a file that is there and of no use.
    pub fn load(
        folder: &Path,
        device: &dyn Device,
        config: &ModelConfig,
    ) -> Result<Option<Self>, TunedError> {
        match fs::read_to_string(folder.join(file_name(device, config))) {
            // Only now is it worth to hash every kernel.
            Ok(text) => Self::parse(&text, &Key::new(device, config)).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                Err(TunedError::Damaged("it is no text".to_owned()))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// What is kept after `measured` slots were measured anew: their winners, and of the other slots what was kept before.
    #[must_use]
    pub fn over(mut self, earlier: &Self, measured: &[Slot]) -> Self {
        let winners = &mut self.winners;
        for (slot, values) in &earlier.winners {
            if !measured.contains(slot) && winners.iter().all(|(won, _)| won != slot) {
                winners.push((*slot, values.clone()));
            }
        }
        self
    }

    /// Keeps it, or forgets what was kept if there is nothing to keep; answers where.
    ///
    /// # Errors
    /// The file system's.
    pub fn store(&self, folder: &Path, device: &dyn Device, config: &ModelConfig) -> io::Result<PathBuf> {
        let path = folder.join(file_name(device, config));
        if self.winners.is_empty() {
            return match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(path),
            };
        }
        fs::create_dir_all(folder)?;
        // Another process sees the whole file or none.
        let part = path.with_extension(format!("{}.part", std::process::id()));
        let written =
            fs::write(&part, self.text(&Key::new(device, config))).and_then(|()| fs::rename(&part, &path));
        if written.is_err() {
            let _ = fs::remove_file(&part);
        }
        written.map(|()| path)
    }

    /// Forgets what is kept for every device and model, and what writers that died left behind; answers the files that are
    /// gone. What is no file stays.
    ///
    /// # Errors
    /// The file system's, with the path.
    pub fn remove_all(folder: &Path) -> io::Result<Vec<PathBuf>> {
        let at = |path: &Path, error: io::Error| {
            io::Error::new(error.kind(), format!("{}: {error}", path.display()))
        };
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(at(folder, error)),
        };
        let mut removed = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| at(folder, error))?;
            let path = entry.path();
            let is_ours =
                path.extension().is_some_and(|extension| extension == EXTENSION || extension == "part");
            // A link is removed, not what it names.
            if is_ours && !entry.file_type().map_err(|error| at(&path, error))?.is_dir() {
                fs::remove_file(&path).map_err(|error| at(&path, error))?;
                removed.push(path);
            }
        }
        removed.sort();
        Ok(removed)
    }

    /// The folder that is used when none is named: `LILY_CACHE_DIR`/tuned, else in the user's cache folder; none where the
    /// environment names neither.
    pub fn default_folder() -> Option<PathBuf> {
        let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let user =
            || Some(named("XDG_CACHE_HOME").or_else(|| Some(named("HOME")?.join(".cache")))?.join("lily"));
        Some(named("LILY_CACHE_DIR").or_else(user)?.join("tuned"))
    }

    /// The table's shapes for a chip with the winners in their places.
    pub fn shapes(&self, chip: Chip) -> Shapes {
        let mut shapes = Shapes::of(chip);
        for (slot, values) in &self.winners {
            // Only what is among the alternatives was read.
            let _ = slot.set(&mut shapes, values);
        }
        shapes
    }

    fn text(&self, key: &Key) -> String {
        let mut text = format!("{HEAD}\n");
        // A String takes every write.
        for (name, value) in key.lines() {
            let _ = writeln!(text, "{name}: {value}");
        }
        for (slot, values) in &self.winners {
            let _ = writeln!(text, "{slot}: {}", slot.describe(values));
        }
        let sum = fnv1a(&[&text]);
        let _ = writeln!(text, "sum: {sum}");
        text
    }

    fn parse(text: &str, key: &Key) -> Result<Self, TunedError> {
        let damaged = |what: String| TunedError::Damaged(what);
        let (body, sum) =
            text.rsplit_once("sum: ").ok_or_else(|| damaged("its end is missing".to_owned()))?;
        if fnv1a(&[body]) != sum.trim() {
            return Err(damaged("its sum is another".to_owned()));
        }
        let mut lines = body.lines();
        if lines.next() != Some(HEAD) {
            return Err(TunedError::Stale("version of Lily"));
        }
        for (name, wanted) in key.lines() {
            let found = lines.next().and_then(|line| line.strip_prefix(name)?.strip_prefix(": "));
            match (found, name) {
                (Some(found), _) if found == wanted => {}
                (Some(_), "device") => return Err(TunedError::Stale("driver or system")),
                (Some(_), "model") => return Err(TunedError::Stale("model")),
                (Some(_), _) => return Err(TunedError::Stale("version of the kernels")),
                (None, _) => return Err(damaged(format!("it has no line \"{name}\""))),
            }
        }
        let winner = |line: &str| {
            let (slot, pairs) = line.split_once(": ")?;
            let slot: Slot = slot.parse().ok()?;
            let values = pairs.split(' ').zip(slot.fields()).map(|(pair, field)| {
                let (name, value) = pair.split_once('=')?;
                (name == *field).then(|| value.parse().ok())?
            });
            let values: Vec<usize> = values.collect::<Option<_>>()?;
            slot.alternatives().contains(&values).then_some((slot, values))
        };
        let winners = lines.map(|line| winner(line).ok_or_else(|| damaged(format!("the line \"{line}\""))));
        Ok(Self { winners: winners.collect::<Result<_, _>>()? })
    }
}

/// A hash of every kernel's text as a platform's compiler gets it.
fn kernels_hash(platform: Platform) -> String {
    let mut texts = Vec::new();
    for file in catalog() {
        let missing = file.constants.iter().filter(|constant| constant.default.is_none());
        let given: Vec<(&str, i64)> = missing.map(|constant| (constant.name, 512)).collect();
        if let Ok(specialisation) = Specialisation::new(file, &given) {
            texts.push(specialisation.source(platform));
        }
    }
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    fnv1a(&texts)
}

/// FNV-1a of 64 bits over all parts and their lengths, as hexadecimal digits.
fn fnv1a(parts: &[&str]) -> String {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut eat = |byte: u8| hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    for part in parts {
        part.bytes().for_each(&mut eat);
        part.len().to_le_bytes().into_iter().for_each(&mut eat);
    }
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{check::AppleFamily, device::DryDevice};
    use lily_checkpoint::Checkpoint;

    fn config() -> ModelConfig {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/nano");
        Checkpoint::open(folder.as_ref()).unwrap().config
    }

    fn tuned() -> Tuned {
        Tuned { winners: vec![(Slot::Gdn, vec![4, 4]), (Slot::Tiles, vec![0, 0])] }
    }

    #[test]
    fn what_is_kept_is_found_and_forgotten() {
        let (folder, config) = (tempfile::tempdir().unwrap(), config());
        let device = DryDevice::new(Platform::Cuda);
        let load = || Tuned::load(folder.path(), &device, &config);
        assert_eq!(load().unwrap(), None);
        let path = tuned().store(folder.path(), &device, &config).unwrap();
        assert_eq!(load().unwrap(), Some(tuned()));
        let shapes = tuned().shapes(Chip::of(&device));
        assert_eq!((shapes.gdn.columns, shapes.tiles.sixteen), (4, 0));
        assert_eq!(shapes.wide, Shapes::of(Chip::Hopper).wide);
        // The same device as far as its name goes, but another one.
        let other = DryDevice::apple(AppleFamily::Apple8.smallest());
        let stale = Tuned::load(folder.path(), &other, &config).unwrap_err();
        assert!(matches!(stale, TunedError::Stale(_)), "{stale}");
        // Another model's file is another.
        let wider = ModelConfig { hidden_size: 2 * config.hidden_size, ..config.clone() };
        assert_eq!(Tuned::load(folder.path(), &device, &wider).unwrap(), None);
        fs::write(folder.path().join("other"), "").unwrap();
        assert_eq!(Tuned::remove_all(folder.path()).unwrap(), [path]);
        assert_eq!(Tuned::remove_all(folder.path()).unwrap(), [] as [PathBuf; 0]);
        assert_eq!(Tuned::remove_all(&folder.path().join("none")).unwrap(), [] as [PathBuf; 0]);
        assert_eq!(load().unwrap(), None);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no part files are left");
    }

    #[test]
    fn damage_and_age_are_told() {
        let (folder, config) = (tempfile::tempdir().unwrap(), config());
        let device = DryDevice::new(Platform::Cuda);
        let path = tuned().store(folder.path(), &device, &config).unwrap();
        let right = fs::read_to_string(&path).unwrap();
        let load = |text: &[u8]| {
            fs::write(&path, text).unwrap();
            Tuned::load(folder.path(), &device, &config).unwrap_err().to_string()
        };
        // Whole in form, but other in content.
        let resummed = |text: &str| {
            let (body, _) = text.rsplit_once("sum: ").unwrap();
            format!("{body}sum: {}\n", fnv1a(&[body]))
        };
        for (text, wanted) in [
            (right.replace("simdgroups=4", "simdgroups=2"), "its sum is another"),
            (right[..right.len() / 2].to_owned(), "its end is missing"),
            (String::new(), "its end is missing"),
            (resummed(&right.replace("simdgroups=4", "simdgroups=5")), "the line \"gdn-step: simdgroups=5"),
            (resummed(&right.replace("gdn-step", "step")), "the line \"step"),
            (resummed(&right.replace("no device", "a device")), "another driver or system"),
            (resummed(&right.replace("kernels: ", "kernels: 0")), "another version of the kernels"),
            (resummed(&right.replace("version 1", "version 0")), "another version of Lily"),
            (resummed(&right.replace("model: ", "modell: ")), "no line \"model\""),
        ] {
            let found = load(text.as_bytes());
            assert!(found.contains(wanted), "{found}, {wanted} wanted");
        }
        assert!(load(&[0xff, 0xfe, 0x00]).contains("no text"));
        fs::write(&path, &right).unwrap();
        assert_eq!(Tuned::load(folder.path(), &device, &config).unwrap(), Some(tuned()));
    }
}
