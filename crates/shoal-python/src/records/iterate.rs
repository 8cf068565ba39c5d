//! `for record in records`, as tuples or as bytes: the two loops in which every nanosecond shows.
//!
//! What makes them fast: a block of records is read at once; the type has a bare `tp_iternext`, without the binding's
//! usual way in; and two tuples are returned in turn, each refilled when it has no other owner, as `zip` does
//! with its one. A loop holds a record until it has the next, so with two of them the one before the last is free.
//!
//! A tuple with another owner is never changed: it is reused only while its one reference is ours. Only the thread that
//! holds the interpreter can change that, and between the check and the last value no Python code runs (creating and
//! freeing integers, floats and bytes calls none). A cached hash also prevents the reuse: an interpreter that caches the
//! hash of a tuple (3.14 does) must reset it in `PyTuple_SetItem`, which is tested once.
//!
//! A free-threaded interpreter does not load this module, whose binary interface is that of those with a lock.

use std::mem::ManuallyDrop;
use std::os::raw::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use shoal_records::{Blocks, Records};

use super::decode::Decoder;
use crate::errors::records_error;
use crate::fork::Owner;

/// Bytes of a block: it stays in a core's second cache while its records are given out.
const BLOCK: usize = 256 << 10;

/// What an iterator gives.
#[derive(Clone, Copy)]
pub enum Give {
    /// A tuple of its fields.
    Tuples,
    /// Its bytes.
    Bytes,
}

/// The Python object: what every object begins with, then ours.
#[repr(C)]
struct Iteration {
    base: ffi::PyObject,
    state: *mut State,
}

/// Touched only by the thread that holds the interpreter.
struct State {
    /// The next record, and the end of the block.
    at: *const u8,
    end: *const u8,
    /// Bytes of a record.
    size: usize,
    decoder: Decoder,
    tuples: [*mut ffi::PyObject; 2],
    turn: usize,
    /// Whether tuples may be filled again.
    reuse: bool,
    /// None while a thread reads the next block, and at the end.
    blocks: Option<Box<Blocks>>,
    /// The process in which a thread reads the next block.
    reading: Option<Owner>,
    /// Held while it does, so that other threads can wait for it.
    turnstile: Arc<Mutex<()>>,
}

/// The types of the two iterators, made when first asked for.
static TYPES: PyOnceLock<[Py<PyType>; 2]> = PyOnceLock::new();

/// A new iterator over records.
pub fn iterate<'py>(py: Python<'py>, records: &Records, give: Give) -> PyResult<Bound<'py, PyAny>> {
    let types = TYPES.get_or_try_init(py, || -> PyResult<_> {
        let tuples = make_type(py, c"shoal._shoal.RecordTuples", c"Records as tuples.", next_tuple)?;
        Ok([tuples, make_type(py, c"shoal._shoal.RecordBytes", c"Records as bytes.", next_bytes)?])
    })?;
    let (of, reuse) = match give {
        Give::Tuples => (&types[0], tuples_can_be_reused(py)?),
        Give::Bytes => (&types[1], false),
    };
    let size = records.format().size();
    let state = Box::new(State {
        at: ptr::null(),
        end: ptr::null(),
        size,
        decoder: Decoder::new(records.format()),
        tuples: [ptr::null_mut(); 2],
        turn: 0,
        reuse,
        blocks: Some(Box::new(records.blocks(Some((BLOCK / size).max(1) as u64), false))),
        reading: None,
        turnstile: Arc::default(),
    });
    // SAFETY: the type is one of ours, made for `Iteration`; the memory for it comes zeroed, and the state is moved in before
    // any other code sees the object.
    unsafe {
        let object = ffi::PyType_GenericAlloc(of.as_ptr().cast(), 0);
        let object = Bound::from_owned_ptr_or_err(py, object)?;
        (*object.as_ptr().cast::<Iteration>()).state = Box::into_raw(state);
        Ok(object)
    }
}

fn make_type(
    py: Python<'_>,
    name: &'static std::ffi::CStr,
    doc: &'static std::ffi::CStr,
    next: unsafe extern "C" fn(*mut ffi::PyObject) -> *mut ffi::PyObject,
) -> PyResult<Py<PyType>> {
    let slot = |slot: c_int, pfunc: *mut c_void| ffi::PyType_Slot { slot, pfunc };
    let mut slots = [
        slot(ffi::Py_tp_doc, doc.as_ptr().cast_mut().cast()),
        slot(ffi::Py_tp_iter, ffi::PyObject_SelfIter as *mut c_void),
        slot(ffi::Py_tp_iternext, next as *mut c_void),
        slot(ffi::Py_tp_dealloc, dealloc as *mut c_void),
        slot(0, ptr::null_mut()),
    ];
    let mut spec = ffi::PyType_Spec {
        name: name.as_ptr(),
        basicsize: size_of::<Iteration>() as c_int,
        itemsize: 0,
        flags: (ffi::Py_TPFLAGS_DEFAULT | ffi::Py_TPFLAGS_DISALLOW_INSTANTIATION) as _,
        slots: slots.as_mut_ptr(),
    };
    // SAFETY: the slots end with a zero and have functions of their own kinds; what is not static is copied.
    let made = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyType_FromSpec(&mut spec)) }?;
    Ok(made.cast_into::<PyType>()?.unbind())
}

/// Returns whether a refilled tuple behaves like a new one for all code.
fn tuples_can_be_reused(py: Python<'_>) -> PyResult<bool> {
    static CAN: PyOnceLock<bool> = PyOnceLock::new();
    let try_out = || -> PyResult<bool> {
        // SAFETY: the interpreter is held; the one reference to the tuple is ours, and SetItem takes over those to its values.
        unsafe {
            let tuple = ffi::PyTuple_New(1);
            let tuple = Bound::from_owned_ptr_or_err(py, tuple)?;
            let mut hashes = [0, 0];
            for (value, hash) in (1_000_001..).zip(&mut hashes) {
                let filled = ffi::Py_REFCNT(tuple.as_ptr()) == 1
                    && ffi::PyTuple_SetItem(tuple.as_ptr(), 0, ffi::PyLong_FromLong(value)) == 0;
                if !filled {
                    ffi::PyErr_Clear();
                    return Ok(false);
                }
                *hash = tuple.hash()?;
            }
            Ok(hashes[0] != hashes[1])
        }
    };
    Ok(*CAN.get_or_try_init(py, try_out)?)
}

/// The next record as a tuple; null at the end, or with an exception.
unsafe extern "C" fn next_tuple(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: Python calls this with an object of our type and holds the interpreter. No reference to the state is kept
    // across a call that may run other code (`refill`, `PyTuple_New`): other threads may come in there. `at` is below `end`
    // where it is read, both are whole records apart, and the block lives in `blocks` until `refill`.
    unsafe {
        let state = (*object.cast::<Iteration>()).state;
        let mut spare: *mut ffi::PyObject = ptr::null_mut();
        let tuple = loop {
            if (*state).at == (*state).end && !refill(state) {
                ffi::Py_XDECREF(spare);
                return ptr::null_mut();
            }
            let turn = (*state).turn;
            let kept = (*state).tuples[turn];
            if !kept.is_null() && ffi::Py_REFCNT(kept) == 1 {
                ffi::Py_XDECREF(spare);
                break kept;
            }
            if !spare.is_null() && ffi::Py_REFCNT(spare) == 1 {
                if (*state).reuse {
                    (*state).tuples[turn] = spare;
                    // It has another owner, so this frees nothing.
                    ffi::Py_XDECREF(kept);
                }
                break spare;
            }
            ffi::Py_XDECREF(spare);
            spare = ffi::PyTuple_New((*state).decoder.slots().len() as ffi::Py_ssize_t);
            if spare.is_null() {
                return ptr::null_mut();
            }
            if (*state).decoder.slots().is_empty() {
                // All empty tuples are one object, which always has other owners.
                (*state).at = (*state).at.add((*state).size);
                return spare;
            }
        };
        let state = &mut *state;
        for (place, slot) in state.decoder.slots().iter().enumerate() {
            let value = slot.object(state.at);
            // It takes the value over, also when it fails.
            if value.is_null() || ffi::PyTuple_SetItem(tuple, place as ffi::Py_ssize_t, value) != 0 {
                if !state.reuse {
                    ffi::Py_DECREF(tuple);
                }
                return ptr::null_mut();
            }
        }
        state.at = state.at.add(state.size);
        if state.reuse {
            state.turn ^= 1;
            ffi::Py_INCREF(tuple);
        }
        tuple
    }
}

/// The next record as bytes; null at the end, or with an exception.
unsafe extern "C" fn next_bytes(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: as in `next_tuple`; making bytes runs no other code.
    unsafe {
        let state = (*object.cast::<Iteration>()).state;
        if (*state).at == (*state).end && !refill(state) {
            return ptr::null_mut();
        }
        let record = ffi::PyBytes_FromStringAndSize((*state).at.cast(), (*state).size as ffi::Py_ssize_t);
        if !record.is_null() {
            (*state).at = (*state).at.add((*state).size);
        }
        record
    }
}

/// Gets the next block; false at the end, or with an exception.
///
/// # Safety
///
/// The interpreter is held, and the state is that of a living iterator.
#[cold]
#[inline(never)]
unsafe fn refill(state: *mut State) -> bool {
    Python::attach(|py| {
        // SAFETY: the caller's promise.
        let work = AssertUnwindSafe(|| unsafe { next_block(py, state) });
        let panicked = |_| Err(PyRuntimeError::new_err("reading records panicked: this is a bug in shoal"));
        catch_unwind(work).unwrap_or_else(panicked).unwrap_or_else(|error| {
            error.restore(py);
            false
        })
    })
}

/// Whether there are records to give out, after reading the next block if need be.
///
/// # Safety
///
/// The state is that of a living iterator.
unsafe fn next_block(py: Python<'_>, state: *mut State) -> PyResult<bool> {
    // SAFETY: the interpreter is held wherever the state is touched, and no reference to it lives while it is released.
    unsafe {
        while let Some(owner) = (*state).reading {
            owner.check("this iteration")?;
            let turnstile = (*state).turnstile.clone();
            py.detach(move || drop(turnstile.lock().unwrap_or_else(PoisonError::into_inner)));
            py.check_signals()?;
            if (*state).at != (*state).end {
                return Ok(true);
            }
        }
        let Some(mut blocks) = (*state).blocks.take() else { return Ok(false) };
        (*state).reading = Some(Owner::here());
        let turnstile = (*state).turnstile.clone();
        let work = AssertUnwindSafe(move || {
            let _held = turnstile.lock().unwrap_or_else(PoisonError::into_inner);
            // Where the bytes are, without the loan: they stay there until the next call of `next_block`.
            let read = blocks.next_block().map(|block| block.map(|bytes| (bytes.as_ptr() as usize, bytes.len())));
            (blocks, read)
        });
        let done = py.detach(|| catch_unwind(work));
        // Also after a panic: other threads would wait for ever.
        (*state).reading = None;
        let (blocks, read) = done.unwrap_or_else(|panic| resume_unwind(panic));
        match read.map_err(|error| records_error(py, &error))? {
            None => Ok(false),
            Some((start, length)) => {
                (*state).at = start as *const u8;
                (*state).end = (*state).at.add(length);
                (*state).blocks = Some(blocks);
                // Loops of the interpreter's own, such as `list(records)`, do not look by themselves.
                py.check_signals()?;
                Ok(true)
            }
        }
    }
}

unsafe extern "C" fn dealloc(object: *mut ffi::PyObject) {
    // SAFETY: Python calls this once, with the last reference; the object is of our type, whose reference it holds as every
    // object of a heap type does. The tuples are ours.
    unsafe {
        let of = ffi::Py_TYPE(object);
        let state = (*object.cast::<Iteration>()).state;
        if !state.is_null() {
            let state = Box::from_raw(state);
            for tuple in state.tuples {
                ffi::Py_XDECREF(tuple);
            }
            // A panic must not cross into the interpreter; what it leaves is memory.
            let mut state = ManuallyDrop::new(state);
            let _ = catch_unwind(AssertUnwindSafe(|| ManuallyDrop::drop(&mut state)));
        }
        ffi::PyObject_Free(object.cast());
        ffi::Py_DECREF(of.cast());
    }
}
