//! A copy of the tree, where guards are removed.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// Not needed to build or to test: build products, tools, the history.
const LEFT_OUT: [&str; 3] = ["target", ".tools", ".git"];

#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) top: PathBuf,
}

/// A file of the copy that is not as it was.
#[must_use]
#[derive(Debug)]
pub(crate) struct Changed {
    path: PathBuf,
    original: String,
}

impl Tree {
    /// Files that are the same are left alone: cargo looks at times, and would build all of them anew.
    pub(crate) fn copy(from: &Path, to: PathBuf) -> Result<Self, String> {
        copy_directory(from, &to).map_err(|error| format!("{}: {error}", to.display()))?;
        Ok(Self { top: to })
    }

    pub(crate) fn read(&self, file: &Path) -> Result<String, String> {
        let path = self.top.join(file);
        fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Every file below this directory, as one text.
    pub(crate) fn sources(&self, directory: &Path) -> Result<String, String> {
        let path = self.top.join(directory);
        sources(&path).map_err(|error| format!("{}: {error}", path.display()))
    }

    pub(crate) fn change(&self, file: &Path, text: &str) -> Result<Changed, String> {
        let changed = Changed {
            path: self.top.join(file),
            original: self.read(file)?,
        };
        write(&changed.path, text)?;
        Ok(changed)
    }
}

impl Changed {
    /// With the time of now, so that cargo builds it anew.
    pub(crate) fn undo(self) -> Result<(), String> {
        write(&self.path, &self.original)
    }
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

fn sources(directory: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            text += &sources(&entry.path())?;
        } else if entry.path().extension() == Some(OsStr::new("rs")) {
            text += &fs::read_to_string(entry.path())?;
        }
    }
    Ok(text)
}

fn copy_directory(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    let mut kept = BTreeSet::new();
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        if LEFT_OUT.map(OsStr::new).contains(&name.as_os_str()) {
            continue;
        }
        let (source, copy) = (entry.path(), to.join(&name));
        if entry.file_type()?.is_dir() {
            copy_directory(&source, &copy)?;
        } else if fs::read(&copy).ok() != Some(fs::read(&source)?) {
            fs::copy(&source, &copy)?;
        }
        kept.insert(name);
    }
    for entry in fs::read_dir(to)? {
        let entry = entry?;
        if kept.contains(&entry.file_name()) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
