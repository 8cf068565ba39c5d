//! The groups that one worker has seen, and their merge.

use super::fused::{Cells, Marks};
use super::slots::{Change, Slots, place};
use super::table::{NARROW_ROWS, Pairs, Table, each};
use super::{Measure, Value};
use crate::column::{Integer, Rows, Stored, Strided, with_integer};
use crate::error::{Error, ErrorKind, Result};
use crate::format::Field;

/// Groups by the values of an integer field, and what was measured of each.
pub(super) struct Groups {
    key: Field,
    slots: Slots,
    /// Which cells are in use: 1, or 0 where the table that tells does not say otherwise ([`Groups::settle`]).
    present: Vec<u8>,
    /// The table whose cells tell which groups are in use, if one does. A mark for each record would be one more random
    /// access, and a look at the cell before it is changed would stall on memory.
    telling: Option<usize>,
    tables: Vec<Table>,
    /// Records so far.
    seen: u64,
    most: usize,
    /// The cells of a strip's rows.
    places: Vec<u32>,
}

impl Groups {
    pub(super) fn new(key: &Field, measures: &[Measure], most: usize) -> Self {
        let tables: Vec<Table> = measures.iter().map(Table::new).collect();
        let telling = (0..tables.len()).max_by_key(|at| tables[*at].tells()).filter(|at| tables[*at].tells() > 0);
        Self {
            key: key.clone(),
            slots: Slots::new(),
            present: Vec::new(),
            telling,
            tables,
            seen: 0,
            most,
            places: Vec::new(),
        }
    }

    /// Adds rows of a strip, of which there is at least one.
    pub(super) fn add(&mut self, strip: &[u8], size: usize, rows: Rows<'_>) -> Result<()> {
        let done = self.add_fused(strip, size, rows);
        self.seen += done as u64;
        match rows {
            _ if done == rows.len() => Ok(()),
            Rows::All(rows) => self.add_in_passes(&strip[done * size..], size, Rows::All(rows - done)),
            Rows::Chosen(places) => self.add_in_passes(strip, size, Rows::Chosen(&places[done..])),
        }
    }

    /// Adds rows in one pass as far as that can be done; how many these were.
    fn add_fused(&mut self, strip: &[u8], size: usize, rows: Rows<'_>) -> usize {
        let Slots::Dense { base, .. } = self.slots else { return 0 };
        let [table] = &mut self.tables[..] else { return 0 };
        if self.seen + rows.len() as u64 > NARROW_ROWS {
            return 0;
        }
        let marks = match self.telling.map(|_| table.tells()) {
            None | Some(0) => Marks::All,
            Some(1) => Marks::Zeros,
            Some(_) => Marks::None,
        };
        let mut cells = Cells { base: base as u64, table, present: &mut self.present, marks };
        cells.add(&self.key, strip, size, rows)
    }

    /// Adds rows of a strip in several passes: the cell of each key, then each table's values.
    fn add_in_passes(&mut self, strip: &[u8], size: usize, rows: Rows<'_>) -> Result<()> {
        let key = self.key.clone();
        with_integer!(key, S => self.locate(Strided::<S>::new(strip, size, &key), rows))?;
        self.seen += rows.len() as u64;
        for table in &mut self.tables {
            table.make_room(strip, size, rows, self.seen);
            table.add(strip, size, rows, &self.places);
        }
        match self.telling.map(|at| &self.tables[at]) {
            Some(table) if table.tells() > 1 => {}
            Some(table) => table.mark_zeros(strip, size, rows, &self.places, &mut self.present),
            None => self.places.iter().for_each(|place| self.present[*place as usize] = 1),
        }
        Ok(())
    }

    /// Finds the cell of each row's key.
    fn locate<S: Stored<Value: Integer>>(&mut self, keys: Strided<'_, S>, rows: Rows<'_>) -> Result<()> {
        self.places.resize(rows.len(), 0);
        if let Slots::Dense { base, len } = self.slots {
            let base = base as u64;
            let mut farthest = 0;
            keys.write(rows, &mut self.places, |key| {
                let place = key.bits().wrapping_sub(base);
                farthest = place.max(farthest);
                place as u32
            });
            if farthest < len {
                return Ok(());
            }
            let low = keys.fold(rows, S::Value::clamped(i128::MAX), |low, key| low.min(key), Ord::min);
            let high = keys.fold(rows, S::Value::clamped(i128::MIN), |high, key| high.max(key), Ord::max);
            self.cover(low.into(), high.into());
            if matches!(self.slots, Slots::Dense { .. }) {
                return self.locate(keys, rows);
            }
        }
        if let Slots::Hashed { places, keys: known } = &mut self.slots {
            keys.write(rows, &mut self.places, |key| place(places, known, key.bits()));
        }
        self.looked_up()
    }

    /// Moves all cells so that keys of this range have theirs.
    fn cover(&mut self, low: i128, high: i128) {
        if self.slots.covers(low, high) {
            return;
        }
        self.settle();
        match self.slots.cover(low, high, &self.present) {
            Change::None => {}
            Change::Wider { in_front, len } => {
                let mut wider = vec![0; len];
                wider[in_front..][..self.present.len()].copy_from_slice(&self.present);
                self.tables.iter_mut().for_each(|table| table.widen(in_front, len));
                self.present = wider;
            }
            Change::Hashed => {
                self.tables.iter_mut().for_each(|table| table.compact(&self.present));
                self.present.retain(|present| *present != 0);
            }
        }
    }

    /// Brings what was added into the form that can be merged and read.
    pub(super) fn finish(&mut self) {
        self.settle();
        self.tables.iter_mut().for_each(Table::make_narrow);
    }

    /// Marks all groups in use.
    fn settle(&mut self) {
        if let Some(at) = self.telling {
            self.tables[at].settle(&mut self.present);
        }
    }

    /// Gives keys that were seen for the first time their cells.
    fn looked_up(&mut self) -> Result<()> {
        let len = self.slots.len();
        if len > self.most {
            return Err(Error::new(
                ErrorKind::Groups,
                format!("more than {} groups by {:?}: allow more, or select fewer records", self.most, self.key.name),
            ));
        }
        self.tables.iter_mut().for_each(|table| table.extend(len));
        self.present.resize(len, 1);
        Ok(())
    }

    /// Adds what another worker has seen, which must be finished, as this must be.
    pub(super) fn merge(&mut self, other: &Self) -> Result<()> {
        let Some((low, high)) = other.ends() else { return Ok(()) };
        self.cover(low, high);
        let pairs = match (&mut self.slots, &other.slots) {
            (Slots::Dense { base: here, .. }, Slots::Dense { base: there, .. }) => {
                Pairs::Run { from: (low - *there) as usize..(high - *there) as usize + 1, to: (low - *here) as usize }
            }
            (Slots::Dense { base, .. }, _) => {
                let base = *base as u64;
                let pair = |at: u32| (at, other.slots.key(at as usize).wrapping_sub(base) as u32);
                Pairs::Listed(other.used().map(pair).collect())
            }
            (Slots::Hashed { places, keys }, _) => {
                let pair = |at: u32| (at, place(places, keys, other.slots.key(at as usize)));
                let pairs = other.used().map(pair).collect();
                self.looked_up()?;
                Pairs::Listed(pairs)
            }
        };
        self.seen += other.seen;
        for (table, other) in self.tables.iter_mut().zip(&other.tables) {
            if self.seen > NARROW_ROWS || other.is_wide() {
                table.make_wide();
            }
            table.merge(other, &pairs);
        }
        each(&mut self.present, &other.present, &pairs, |present, also| *present |= also);
        Ok(())
    }

    /// The least and the greatest key.
    fn ends(&self) -> Option<(i128, i128)> {
        let key = |at: u32| self.integer(self.slots.key(at as usize));
        match self.slots {
            Slots::Dense { .. } => {
                let last = self.present.iter().rposition(|present| *present != 0)?;
                Some((key(self.used().next()?), key(last as u32)))
            }
            Slots::Hashed { .. } => {
                let first = key(self.used().next()?);
                Some(self.used().map(key).fold((first, first), |(low, high), key| (low.min(key), high.max(key))))
            }
        }
    }

    /// The cells in use.
    fn used(&self) -> impl Iterator<Item = u32> {
        self.present.iter().enumerate().filter(|(_, present)| **present != 0).map(|(at, _)| at as u32)
    }

    /// A key as the number it is.
    fn integer(&self, key: u64) -> i128 {
        integer(&self.key, key)
    }

    /// The cells in use, in the order of their keys, and these as bits.
    pub(super) fn in_order(&self) -> Result<(Vec<u32>, Vec<u64>)> {
        let mut slots = Vec::with_capacity(self.present.iter().filter(|present| **present != 0).count());
        slots.extend(self.used());
        if slots.len() > self.most {
            return Err(Error::new(
                ErrorKind::Groups,
                format!("{} groups by {:?}, but only {} are allowed", slots.len(), self.key.name, self.most),
            ));
        }
        if matches!(self.slots, Slots::Hashed { .. }) {
            slots.sort_unstable_by_key(|at| self.integer(self.slots.key(*at as usize)));
        }
        let keys = slots.iter().map(|at| self.slots.key(*at as usize)).collect();
        Ok((slots, keys))
    }

    /// What was measured of groups, if 64 bits hold it.
    pub(super) fn small(&self, measure: usize, slots: &[u32]) -> Option<Vec<i64>> {
        self.tables[measure].small(slots)
    }

    /// What was measured of a group.
    pub(super) fn value(&self, measure: usize, at: u32) -> Value {
        self.tables[measure].value(at as usize)
    }
}

/// A key, whose sign is extended to all bits, as the number it is.
pub(super) fn integer(field: &Field, key: u64) -> i128 {
    let signed = field.kind.range().is_some_and(|(least, _)| least < 0);
    if signed { (key as i64).into() } else { key.into() }
}
