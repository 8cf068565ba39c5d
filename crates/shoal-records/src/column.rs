//! One field of a block of raw records, as values: the hot loops start here.
//!
//! Here: the memory layout of each kind ([`Stored`]), a field of contiguous records ([`Strided`]), the selected records
//! ([`Rows`]), and the choice of a type by a field's kind ([`with_integer`], [`with_float`]).
//! Loops over a `Strided` are compiled for each kind and byte order; the distance between two values stays a variable,
//! since a load per record is what memory can deliver anyway.
//!
//! Not here: what is done with the values (`expression/`, `aggregate/`, `arrow.rs`).

use std::marker::PhantomData;

use half::f16;

use crate::format::Field;

/// A type as its bytes lie in a record.
pub(crate) trait Stored {
    type Value: Copy;
    const SIZE: usize;

    /// Loads a value from anywhere.
    ///
    /// # Safety
    ///
    /// `SIZE` bytes can be read at `at`.
    unsafe fn load(at: *const u8) -> Self::Value;
}

/// Least significant byte first.
pub(crate) struct Little<T>(PhantomData<T>);

/// Most significant byte first.
pub(crate) struct Big<T>(PhantomData<T>);

/// A byte that is 0 or not.
pub(crate) struct Truth;

macro_rules! stored {
    ($($type:ty)*) => {$(
        impl Stored for Little<$type> {
            type Value = $type;
            const SIZE: usize = size_of::<$type>();
            #[inline(always)]
            unsafe fn load(at: *const u8) -> $type {
                // SAFETY: the caller promises the bytes; an array of bytes has no alignment.
                <$type>::from_le_bytes(unsafe { at.cast::<[u8; size_of::<$type>()]>().read() })
            }
        }
        impl Stored for Big<$type> {
            type Value = $type;
            const SIZE: usize = size_of::<$type>();
            #[inline(always)]
            unsafe fn load(at: *const u8) -> $type {
                // SAFETY: as above.
                <$type>::from_be_bytes(unsafe { at.cast::<[u8; size_of::<$type>()]>().read() })
            }
        }
    )*};
}
stored!(u8 u16 u32 u64 i8 i16 i32 i64 f16 f32 f64);

impl Stored for Truth {
    type Value = u8;
    const SIZE: usize = 1;
    #[inline(always)]
    unsafe fn load(at: *const u8) -> u8 {
        // SAFETY: the caller promises the byte.
        u8::from(unsafe { at.read() } != 0)
    }
}

/// What all integers can do.
pub(crate) trait Integer: Copy + Ord + Into<i128> + Send + Sync + 'static {
    /// Its bits, with the sign extended, so that differences come out right whatever the sign.
    fn bits(self) -> u64;
    /// The nearest value of this type.
    fn clamped(value: i128) -> Self;
    /// How many bits its value takes at most, told by the same number of leading ones or zeros.
    fn magnitude(self) -> u64;
    fn double(self) -> f64;
    /// Whether `low <= self <= high`, for `low <= high`, with one comparison.
    fn within(self, low: Self, high: Self) -> bool;
}

macro_rules! integer {
    ($($type:ty: $unsigned:ty, $magnitude:expr;)*) => {$(
        impl Integer for $type {
            #[inline(always)]
            fn bits(self) -> u64 {
                self as u64
            }
            fn clamped(value: i128) -> Self {
                value.clamp(<$type>::MIN.into(), <$type>::MAX.into()) as $type
            }
            #[inline(always)]
            fn magnitude(self) -> u64 {
                $magnitude(self as u64)
            }
            #[inline(always)]
            fn double(self) -> f64 {
                self as f64
            }
            #[inline(always)]
            fn within(self, low: Self, high: Self) -> bool {
                self.wrapping_sub(low) as $unsigned <= high.wrapping_sub(low) as $unsigned
            }
        }
    )*};
}
/// Of a signed value: itself, or its complement if it is negative.
#[inline(always)]
fn folded(bits: u64) -> u64 {
    bits ^ ((bits as i64) >> 63) as u64
}
integer! {
    u8: u8, |bits: u64| bits;
    u16: u16, |bits: u64| bits;
    u32: u32, |bits: u64| bits;
    u64: u64, |bits: u64| bits;
    i8: u8, folded;
    i16: u16, folded;
    i32: u32, folded;
    i64: u64, folded;
}

/// What all floats can do.
pub(crate) trait Float: Copy + Send + Sync + 'static {
    fn double(self) -> f64;
}

impl Float for f16 {
    #[inline(always)]
    fn double(self) -> f64 {
        self.to_f64()
    }
}

impl Float for f32 {
    #[inline(always)]
    fn double(self) -> f64 {
        self.into()
    }
}

impl Float for f64 {
    #[inline(always)]
    fn double(self) -> f64 {
        self
    }
}

/// Names the stored type of an integer field within an expression. The field's kind must be an integer's.
macro_rules! with_integer {
    ($field:expr, $stored:ident => $body:expr) => {{
        use $crate::column::{Big, Little, Truth};
        use $crate::format::Kind;
        macro_rules! of {
            ($type:ty) => {{
                type $stored = $type;
                $body
            }};
        }
        match ($field.kind, $field.big_endian) {
            (Kind::Bool, _) => of!(Truth),
            (Kind::U8, _) => of!(Little<u8>),
            (Kind::I8, _) => of!(Little<i8>),
            (Kind::U16, false) => of!(Little<u16>),
            (Kind::U16, true) => of!(Big<u16>),
            (Kind::I16, false) => of!(Little<i16>),
            (Kind::I16, true) => of!(Big<i16>),
            (Kind::U32, false) => of!(Little<u32>),
            (Kind::U32, true) => of!(Big<u32>),
            (Kind::I32, false) => of!(Little<i32>),
            (Kind::I32, true) => of!(Big<i32>),
            (Kind::U64, false) => of!(Little<u64>),
            (Kind::U64, true) => of!(Big<u64>),
            (Kind::I64, false) => of!(Little<i64>),
            (Kind::I64, true) => of!(Big<i64>),
            (kind, _) => {
                unreachable!("{kind:?} is not an integer: checked where the condition or the aggregate was bound")
            }
        }
    }};
}
pub(crate) use with_integer;

/// Names the stored type of a float field within an expression. The field's kind must be a float's.
macro_rules! with_float {
    ($field:expr, $stored:ident => $body:expr) => {{
        use $crate::column::{Big, Little};
        use $crate::format::Kind;
        macro_rules! of {
            ($type:ty) => {{
                type $stored = $type;
                $body
            }};
        }
        match ($field.kind, $field.big_endian) {
            (Kind::F16, false) => of!(Little<half::f16>),
            (Kind::F16, true) => of!(Big<half::f16>),
            (Kind::F32, false) => of!(Little<f32>),
            (Kind::F32, true) => of!(Big<f32>),
            (Kind::F64, false) => of!(Little<f64>),
            (Kind::F64, true) => of!(Big<f64>),
            (kind, _) => {
                unreachable!("{kind:?} is not a float: checked where the condition or the aggregate was bound")
            }
        }
    }};
}
pub(crate) use with_float;

/// Which records of a strip are meant.
#[derive(Clone, Copy)]
pub(crate) enum Rows<'a> {
    /// So many: all.
    All(usize),
    /// Those at these places, in order.
    Chosen(&'a [u32]),
}

impl Rows<'_> {
    pub(crate) fn len(self) -> usize {
        match self {
            Rows::All(rows) => rows,
            Rows::Chosen(places) => places.len(),
        }
    }
}

/// Rows between the prefetch of a value and its use: enough for the slowest cache.
const SOON: usize = 64;

/// One field of whole records that lie one after the other.
pub(crate) struct Strided<'a, S> {
    first: *const u8,
    stride: usize,
    len: usize,
    records: PhantomData<(&'a [u8], S)>,
}

impl<S> Clone for Strided<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Strided<'_, S> {}

impl<'a, S: Stored> Strided<'a, S> {
    /// A field of these records, each `stride` bytes long.
    pub(crate) fn new(records: &'a [u8], stride: usize, field: &Field) -> Self {
        assert!(field.offset + S::SIZE <= stride, "a format's fields lie within its records");
        let len = records.len() / stride;
        Self { first: records.as_ptr().wrapping_add(field.offset), stride, len, records: PhantomData }
    }

    /// # Safety
    ///
    /// There is such a record.
    #[inline(always)]
    unsafe fn get(self, at: usize) -> S::Value {
        debug_assert!(at < self.len);
        // SAFETY: `at` is below the number of records, and the field lies within each of them (asserted in `new`).
        unsafe { S::load(self.first.add(at * self.stride)) }
    }

    /// A chosen one; places come from a mask of the same strip.
    #[inline(always)]
    fn chosen(self, at: u32) -> S::Value {
        let at = at as usize;
        assert!(at < self.len, "chosen places are those of the strip");
        // SAFETY: just looked at.
        unsafe { self.get(at) }
    }

    /// Folds the values of these rows, in four lanes so that one step need not wait for the one before: `start` must be
    /// what changes nothing when joined.
    #[inline(always)]
    pub(crate) fn fold<A: Copy>(
        self,
        rows: Rows<'_>,
        start: A,
        step: impl Fn(A, S::Value) -> A,
        join: impl Fn(A, A) -> A,
    ) -> A {
        let mut lanes = [start; 4];
        match rows {
            Rows::All(_) => {
                let fours = self.len / 4 * 4;
                for at in (0..fours).step_by(4) {
                    for (lane, total) in lanes.iter_mut().enumerate() {
                        // SAFETY: below `fours`, which is at most `len`.
                        *total = step(*total, unsafe { self.get(at + lane) });
                    }
                }
                for at in fours..self.len {
                    // SAFETY: below `len`.
                    lanes[0] = step(lanes[0], unsafe { self.get(at) });
                }
            }
            Rows::Chosen(places) => {
                for at in places {
                    lanes[0] = step(lanes[0], self.chosen(*at));
                }
            }
        }
        join(join(lanes[0], lanes[1]), join(lanes[2], lanes[3]))
    }

    /// Does something with each value of these rows and the lane, of so many, whose turn it is.
    #[inline(always)]
    pub(crate) fn lanes(self, rows: Rows<'_>, lanes: usize, mut with: impl FnMut(usize, S::Value)) {
        let all = matches!(rows, Rows::All(_));
        let count = if all { self.len } else { rows.len() };
        let value = |at: usize| match rows {
            // SAFETY: `at` is below `count`, which is `len`.
            Rows::All(_) => unsafe { self.get(at) },
            Rows::Chosen(places) => self.chosen(places[at]),
        };
        let whole = count / lanes * lanes;
        for at in (0..whole).step_by(lanes) {
            for lane in 0..lanes {
                with(lane, value(at + lane));
            }
        }
        for at in whole..count {
            with(0, value(at));
        }
    }

    /// Does something with each value of these rows, and the thing that stands for its row.
    #[inline(always)]
    pub(crate) fn zip<T: Copy>(self, rows: Rows<'_>, others: &[T], mut with: impl FnMut(T, S::Value)) {
        match rows {
            Rows::All(_) => {
                assert_eq!(others.len(), self.len);
                for (at, other) in others.iter().enumerate() {
                    // SAFETY: below `len`.
                    with(*other, unsafe { self.get(at) });
                }
            }
            Rows::Chosen(places) => {
                for (at, other) in places.iter().zip(others) {
                    with(*other, self.chosen(*at));
                }
            }
        }
    }

    /// Does something with each value of these rows and another field's value of the same record, until that says no;
    /// for how many rows it was done. `soon` hears of values some rows before their turn, where all rows are meant.
    #[inline(always)]
    pub(crate) fn pair<T: Stored>(
        self,
        other: Strided<'_, T>,
        rows: Rows<'_>,
        soon: impl Fn(S::Value),
        mut with: impl FnMut(S::Value, T::Value) -> bool,
    ) -> usize {
        assert_eq!((self.len, self.stride), (other.len, other.stride), "two fields of the same records");
        match rows {
            Rows::All(_) => {
                for at in 0..self.len {
                    // SAFETY: both below `len`.
                    soon(unsafe { self.get((at + SOON).min(self.len - 1)) });
                    // SAFETY: below `len`, which is the same for both.
                    if !unsafe { with(self.get(at), other.get(at)) } {
                        return at;
                    }
                }
                self.len
            }
            Rows::Chosen(places) => {
                places.iter().position(|at| !with(self.chosen(*at), other.chosen(*at))).unwrap_or(places.len())
            }
        }
    }

    /// Writes what is made of each value of these rows, in order.
    #[inline(always)]
    pub(crate) fn write<T>(self, rows: Rows<'_>, to: &mut [T], mut make: impl FnMut(S::Value) -> T) {
        match rows {
            Rows::All(_) => {
                assert_eq!(to.len(), self.len);
                for (at, to) in to.iter_mut().enumerate() {
                    // SAFETY: below `len`.
                    *to = make(unsafe { self.get(at) });
                }
            }
            Rows::Chosen(places) => {
                for (at, to) in places.iter().zip(to) {
                    *to = make(self.chosen(*at));
                }
            }
        }
    }

    /// Writes what is made of every value.
    #[inline(always)]
    pub(crate) fn fill<T>(self, to: &mut [T], make: impl FnMut(S::Value) -> T) {
        self.write(Rows::All(self.len), to, make);
    }

    /// Appends what is made of each value of these rows.
    #[inline(always)]
    pub(crate) fn append<T>(self, rows: Rows<'_>, to: &mut Vec<T>, make: impl Fn(S::Value) -> T) {
        match rows {
            // SAFETY: below `len`.
            Rows::All(_) => to.extend((0..self.len).map(|at| make(unsafe { self.get(at) }))),
            Rows::Chosen(places) => to.extend(places.iter().map(|at| make(self.chosen(*at)))),
        }
    }
}
