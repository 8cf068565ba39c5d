//! What a user does to files of the destination between sessions.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::tree;
use super::world::{Whose, World};

impl World {
    /// A random one of them.
    pub fn random_user(&mut self) {
        match self.random.u32(0..8) {
            0..3 => self.user(new_file),
            3 => self.user(overwrite),
            4 => self.user(rename_over),
            5 => self.user(link),
            6 => self.user(delete),
            _ => self.user(odd),
        }
    }

    /// The path of an object that is listed, where it would lie.
    fn a_place(&mut self) -> Option<PathBuf> {
        let objects = &self.jobs[0].origin.objects;
        let names: Vec<&str> = objects.iter().map(|o| o.name.as_str()).filter(|name| !name.contains("..")).collect();
        names.get(self.random.usize(0..names.len().max(1))).map(PathBuf::from)
    }

    fn a_file(&mut self) -> Option<(PathBuf, tree::Found)> {
        let all: Vec<_> = tree::all(&self.out).into_iter().collect();
        let (path, found) = all.get(self.random.usize(0..all.len().max(1)))?.clone();
        self.out.join(&path).symlink_metadata().is_ok_and(|facts| facts.is_file()).then_some((path, found))
    }

    fn bytes(&mut self, path: &Path) -> Vec<u8> {
        let name = path.as_os_str().as_bytes();
        let same = self.jobs[0].origin.objects.iter().find(|o| o.name.as_bytes() == name).map(|o| o.bytes.clone());
        match (self.random.u32(0..5), same) {
            (0, Some(same)) => same, // by chance the very object
            (1, Some(same)) => vec![b'u'; same.len()],
            (2, _) => Vec::new(),
            _ => format!("the user's {}", self.random.u32(..)).into_bytes(),
        }
    }

    fn write(&mut self, path: &Path, bytes: &[u8]) {
        let full = self.out.join(path);
        std::fs::write(&full, bytes).unwrap();
        if self.random.bool() {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000 + 2 * self.random.u64(0..3));
            std::fs::File::options().write(true).open(&full).unwrap().set_modified(time).unwrap();
        }
        if self.random.u32(0..3) == 0 {
            std::fs::set_permissions(&full, PermissionsExt::from_mode(0o600)).unwrap();
        }
    }
}

type Done = Option<(String, Vec<PathBuf>)>;

fn new_file(world: &mut World) -> Done {
    let path = world.a_place()?;
    let full = world.out.join(&path);
    if full.symlink_metadata().is_ok() {
        return None;
    }
    std::fs::create_dir_all(full.parent()?).ok()?;
    let bytes = world.bytes(&path);
    world.write(&path, &bytes);
    Some((format!("makes a file of {} bytes", bytes.len()), vec![path]))
}

fn overwrite(world: &mut World) -> Done {
    let (path, _) = world.a_file()?;
    let bytes = world.bytes(&path);
    // In place: what is linked to it changes too, so only what has no other name.
    let single = std::os::unix::fs::MetadataExt::nlink(&world.out.join(&path).symlink_metadata().ok()?) == 1;
    single.then(|| world.write(&path, &bytes))?;
    Some(("overwrites".into(), vec![path]))
}

fn rename_over(world: &mut World) -> Done {
    let (path, _) = world.a_file()?;
    let aside = PathBuf::from("aside");
    let bytes = world.bytes(&path);
    world.write(&aside, &bytes);
    std::fs::rename(world.out.join(&aside), world.out.join(&path)).unwrap();
    Some(("renames a file over".into(), vec![path]))
}

/// A second name of a file that a run has made: writing to the one must never change the other.
fn link(world: &mut World) -> Done {
    let (from, _) = world.a_file()?;
    let to = world.a_place()?;
    let full = world.out.join(&to);
    std::fs::create_dir_all(full.parent()?).ok()?;
    std::fs::hard_link(world.out.join(&from), &full).ok()?;
    Some(("links".into(), vec![from, to]))
}

fn delete(world: &mut World) -> Done {
    let (path, _) = world.a_file()?;
    std::fs::remove_file(world.out.join(&path)).unwrap();
    Some(("deletes".into(), vec![path]))
}

/// A symbolic link, or a directory, where an object is to lie.
fn odd(world: &mut World) -> Done {
    let path = world.a_place()?;
    let full = world.out.join(&path);
    if full.symlink_metadata().is_ok() {
        return None;
    }
    std::fs::create_dir_all(full.parent()?).ok()?;
    if world.random.bool() {
        std::os::unix::fs::symlink("../secret", &full).ok()?;
        return Some(("makes a symbolic link".into(), vec![path]));
    }
    std::fs::create_dir(&full).ok()?;
    let inside = path.join("inside");
    world.write(&inside, b"the user's");
    world.whose.insert(inside, Whose::User);
    Some(("makes a directory".into(), vec![path]))
}
