//! `GET /list`: which snapshot a page comes from, and where in it the page begins.
//!
//! A marker of synthetic objects is the index of the next one; that of a directory is in `marker.rs`.
//! Not here: when the directory is read and which requests share that (`walks.rs`), making snapshots (`dir.rs`,
//! `snapshot.rs`), the form of a page (`page.rs`), request and response (`answer.rs`).

use super::dir::{Directory, Refusal};
use super::listings::WALK_FAILED;
use super::marker::Marker;
use super::page::{LeftOut, Page};
use super::shared::{Held, Shared};
use super::snapshot::Snapshot;
use super::synthetic::Synthetic;
use super::walks::{self, Waiting};
use super::wire::Wire;
use bytes::Bytes;
use hyper::StatusCode;
use std::sync::Arc;

const BAD_MARKER: Refusal = (
    StatusCode::BAD_REQUEST,
    "this marker is not from this service; list again from the \
start",
);
const OTHER_DIRECTORY: Refusal = (
    StatusCode::GONE,
    "this marker is of another directory than the one that is served now; list again from the start",
);
/// The page if it can be given at once; `None` if the directory must be read first, or is being read.
pub(super) fn ready_page(shared: &Shared, marker: Option<&str>) -> Result<Option<Bytes>, Refusal> {
    let directory = match &shared.held {
        Held::Synthetic(objects) => return synthetic_page(shared, objects, marker).map(Some),
        Held::Directory(directory) => directory,
    };
    match marker {
        None => Ok(None),
        Some(marker) => known_page(shared, directory, &parse(directory, marker)?),
    }
}

/// Has the directory read, or waits until it is, and gives the page. To be called when `ready_page` gave none.
pub(super) async fn walked_page(
    shared: Arc<Shared>,
    wire: Arc<Wire>,
    marker: Option<String>,
) -> Result<Bytes, Refusal> {
    let Held::Directory(directory) = &shared.held else {
        return Err(WALK_FAILED);
    };
    let waiting = Waiting::new(&shared, wire);
    let Some(marker) = marker else {
        let (number, snapshot) = walks::snapshot(&shared, &waiting, true).await?;
        return snapshot_page(&shared, directory, (number, &snapshot), 0, LeftOut::default());
    };
    let marker = parse(directory, &marker)?;
    let (number, snapshot) = walks::snapshot(&shared, &waiting, false).await?;
    shared.listings.lock().resume(marker.identity, number);
    page_after(&shared, directory, (number, &snapshot), &marker)
}

fn parse(directory: &Directory, marker: &str) -> Result<Marker, Refusal> {
    let marker = Marker::parse(marker).ok_or(BAD_MARKER)?;
    // A name says nothing about a place in another directory: what sorts before it there would never be listed.
    if marker.root == directory.identity() { Ok(marker) } else { Err(OTHER_DIRECTORY) }
}

/// The page that follows a marker, where a snapshot for it is here.
fn known_page(shared: &Shared, directory: &Directory, marker: &Marker) -> Result<Option<Bytes>, Refusal> {
    let listings = &shared.listings;
    let (instance, number) = marker.identity;
    if instance != listings.instance {
        let found = listings.lock().resumed(marker.identity);
        return found.map(|(number, snapshot)| page_after(shared, directory, (number, &snapshot), marker)).transpose();
    }
    if let Some(snapshot) = listings.lock().used(number) {
        if !snapshot.is_boundary(marker.place).map_err(|_| WALK_FAILED)? {
            return Err(BAD_MARKER);
        }
        return snapshot_page(shared, directory, (number, &snapshot), marker.place, marker.left_out).map(Some);
    }
    // Dropped, for newer ones took its place. The newest shows all that has been there since this listing began, and
    // the name says where to continue, so that nothing need be read again.
    match listings.lock().newest() {
        Some((newest, snapshot)) if newest > number => {
            page_after(shared, directory, (newest, &snapshot), marker).map(Some)
        }
        _ => Err(BAD_MARKER),
    }
}

/// The page behind the last name that another snapshot gave.
fn page_after(
    shared: &Shared,
    directory: &Directory,
    snapshot: (u64, &Snapshot),
    marker: &Marker,
) -> Result<Bytes, Refusal> {
    let place = snapshot.1.place_after(&marker.name).map_err(|_| WALK_FAILED)?;
    snapshot_page(shared, directory, snapshot, place, marker.left_out)
}

fn snapshot_page(
    shared: &Shared,
    directory: &Directory,
    (number, snapshot): (u64, &Snapshot),
    place: u64,
    left_out: LeftOut,
) -> Result<Bytes, Refusal> {
    let mut page = Page::new(&shared.options);
    let mut name = Vec::new();
    let next = snapshot.names_from(place, |one| {
        name.clear();
        name.extend_from_slice(one);
        page.push(one)
    });
    let place = next.map_err(|_| WALK_FAILED)?;
    let left_out = left_out.or(snapshot.skipped.left_out());
    if place == snapshot.length() {
        return Ok(page.last(left_out));
    }
    let identity = (shared.listings.instance, number);
    let marker = Marker { identity, place, root: directory.identity(), left_out, name };
    Ok(page.followed_by(&marker.text()))
}

fn synthetic_page(shared: &Shared, objects: &Synthetic, marker: Option<&str>) -> Result<Bytes, Refusal> {
    let mut index = match marker {
        Some(marker) => marker.parse().map_err(|_| BAD_MARKER)?,
        None => 0u64,
    };
    if index > objects.count {
        return Err(BAD_MARKER);
    }
    let mut page = Page::new(&shared.options);
    let mut name = Vec::with_capacity(32);
    let mut more = true;
    while more && index < objects.count {
        name.clear();
        objects.name(index, &mut name);
        more = page.push(&name);
        index += 1;
    }
    Ok(if index < objects.count { page.followed_by(&index.to_string()) } else { page.last(LeftOut::default()) })
}
