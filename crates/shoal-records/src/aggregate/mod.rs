//! Counts, sums, least and greatest values and means, of all records or by an integer field.
//!
//! Here: what can be asked ([`Aggregate`], [`Query`]), what comes back ([`Value`], [`Grouped`]), and the run over all
//! partitions. The sums of all records are in `total.rs`; groups are in `groups.rs`, with their places in `slots.rs`,
//! their cells in `table.rs`, and in `fused.rs` the short way for what is asked for most.
//!
//! - Sums of integers are exact.
//! - Sums of floats are compensated: the error is one rounding of the sum, and for n values n · 1e-32 of the sum of their
//!   absolute values. Without groups they are added up in partitions of some megabytes, and these in order: the same file
//!   gives the same bits whatever the number of workers. Which worker saw which record of a group is not fixed, so that
//!   the last bit of a grouped sum may differ from run to run.
//! - NaN is not the least or greatest value unless there is no other; in sums it stays NaN.

mod fused;
mod grouped;
mod groups;
mod slots;
mod table;
mod total;

use std::fmt;
use std::sync::Arc;

use crate::column::Rows;
use crate::error::{Error, Result};
use crate::expression::{Bound, Evaluator, Expression};
use crate::file::Records;
use crate::format::{Field, Format};
use crate::pool::{self, Pool};
use crate::read::{Partitions, Reader};

pub use grouped::Grouped;
use groups::Groups;
use total::Totals;

/// Most groups unless the caller allows another number: each takes some forty bytes for every worker.
const GROUPS_MAX: usize = 20_000_000;

/// What is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Function {
    /// How many records.
    Count,
    /// The sum of a field.
    Sum,
    /// The least value.
    Min,
    /// The greatest value.
    Max,
    /// The sum over the number of records, a float.
    Mean,
}

impl Function {
    fn text(self) -> &'static str {
        match self {
            Function::Count => "count",
            Function::Sum => "sum",
            Function::Min => "min",
            Function::Max => "max",
            Function::Mean => "mean",
        }
    }
}

/// One thing to compute. As text it is `count` or, for example, `sum(len)`, which is also its column's name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Aggregate {
    function: Function,
    field: Option<String>,
}

impl Aggregate {
    /// The number of records.
    #[must_use]
    pub fn count() -> Self {
        Self { function: Function::Count, field: None }
    }

    /// A function of a field; of a count the field has no influence.
    #[must_use]
    pub fn of(function: Function, field: impl Into<String>) -> Self {
        Self { function, field: Some(field.into()) }
    }
}

impl fmt::Display for Aggregate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.field {
            Some(field) => write!(f, "{}({field})", self.function.text()),
            None => f.write_str(self.function.text()),
        }
    }
}

/// What to compute, of which records.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// At least one.
    pub aggregates: Vec<Aggregate>,
    /// Only records for which this holds.
    pub condition: Option<Expression>,
    /// Most groups; without it 20 million.
    pub groups_max: Option<usize>,
}

/// One result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// The least, greatest or mean of no records.
    None,
    /// A count, or the sum, least or greatest of integers.
    Integer(i128),
    /// A mean, or the sum, least or greatest of floats.
    Float(f64),
}

/// What is kept up to date for each strip; a mean takes two of them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Measure {
    Count,
    Sum(Field),
    Least(Field),
    Greatest(Field),
}

/// How one aggregate comes out of the measures.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Output {
    Is(usize),
    Mean { sum: usize, count: usize },
}

/// The aggregates fitted to a format.
pub(crate) struct Plan {
    pub(crate) measures: Vec<Measure>,
    pub(crate) outputs: Vec<Output>,
    pub(crate) names: Vec<String>,
}

impl Plan {
    fn new(aggregates: &[Aggregate], format: &Format) -> Result<Self> {
        if aggregates.is_empty() {
            return Err(Error::invalid("nothing to compute: pass count, sum, min, max or mean"));
        }
        let mut plan = Self { measures: Vec::new(), outputs: Vec::new(), names: Vec::new() };
        for aggregate in aggregates {
            let name = aggregate.to_string();
            let field = aggregate.field.as_ref().map(|name| format.index_of(name)).transpose()?;
            let field = field.map(|at| format.fields()[at].clone());
            let measured = match (aggregate.function, field) {
                (Function::Count, _) => Measure::Count,
                (_, None) => return Err(Error::invalid(format!("{name} needs a field"))),
                (_, Some(field)) if !field.kind.is_integer() && !field.kind.is_float() => {
                    return Err(Error::invalid(format!(
                        "{name}: {:?} is {}, not a number",
                        field.name,
                        field.kind.text()
                    )));
                }
                (Function::Sum | Function::Mean, Some(field)) => Measure::Sum(field),
                (Function::Min, Some(field)) => Measure::Least(field),
                (Function::Max, Some(field)) => Measure::Greatest(field),
            };
            let at = plan.measure(measured);
            let output = match aggregate.function {
                Function::Mean => Output::Mean { sum: at, count: plan.measure(Measure::Count) },
                _ => Output::Is(at),
            };
            if plan.names.contains(&name) {
                return Err(Error::invalid(format!("{name} is requested twice")));
            }
            plan.outputs.push(output);
            plan.names.push(name);
        }
        Ok(plan)
    }

    /// The place of a measure, which is kept once.
    fn measure(&mut self, wanted: Measure) -> usize {
        self.measures.iter().position(|measure| *measure == wanted).unwrap_or_else(|| {
            self.measures.push(wanted);
            self.measures.len() - 1
        })
    }
}

/// A worker's own.
struct Worker<T> {
    reader: Reader,
    evaluator: Option<Evaluator>,
    result: T,
}

impl<T> Worker<T> {
    fn new(bound: Option<&Arc<Bound>>, result: T) -> Self {
        Self { reader: Reader::new(), evaluator: bound.cloned().map(Evaluator::new), result }
    }

    /// Adds the chosen records of a partition to the result.
    fn add(
        &mut self,
        partitions: &Partitions,
        at: u64,
        mut add: impl FnMut(&mut T, &[u8], Rows<'_>) -> Result<()>,
    ) -> Result<()> {
        let size = partitions.records().format().size();
        let (evaluator, result) = (&mut self.evaluator, &mut self.result);
        self.reader.strips(partitions, partitions.get(at), |strip| {
            let rows = match evaluator {
                Some(evaluator) => evaluator.choose(strip),
                None => Rows::All(strip.len() / size),
            };
            if rows.len() > 0 {
                add(result, strip, rows)?;
            }
            Ok(true)
        })
    }
}

impl Records {
    /// Computes aggregates of all records, or of those for which a condition holds: a value for each, in order.
    ///
    /// # Errors
    ///
    /// Expression: the condition does not fit. Invalid: nothing is asked for, or something of no field or of bytes.
    pub fn aggregate(&self, query: &Query, pool: &Pool) -> Result<Vec<Value>> {
        let plan = Plan::new(&query.aggregates, self.format())?;
        let bound = self.bind(query)?;
        let mut total = Totals::new(&plan.measures);
        if bound.is_none() && plan.measures == [Measure::Count] {
            total.count(self.len());
            return Ok(plan.outputs.iter().map(|output| total.value(*output)).collect());
        }
        let partitions = Partitions::of(self, None);
        let size = self.format().size();
        pool::fold(
            pool,
            partitions.count(),
            || Worker::new(bound.as_ref(), Totals::new(&plan.measures)),
            |worker, at| {
                worker.add(&partitions, at, |total, strip, rows| {
                    total.add(&plan.measures, strip, size, rows);
                    Ok(())
                })?;
                Ok(std::mem::replace(&mut worker.result, Totals::new(&plan.measures)))
            },
            |part| {
                total.merge(&part);
                Ok(())
            },
        )?;
        Ok(plan.outputs.iter().map(|output| total.value(*output)).collect())
    }

    /// Computes aggregates for each value of an integer field, in the order of these values.
    ///
    /// # Errors
    ///
    /// As [`Records::aggregate`]. Invalid: the field is not an integer. Groups: there are too many.
    pub fn aggregate_by(&self, by: &str, query: &Query, pool: &Pool) -> Result<Grouped> {
        let plan = Plan::new(&query.aggregates, self.format())?;
        let bound = self.bind(query)?;
        let key = self.format().fields()[self.format().index_of(by)?].clone();
        if !key.kind.is_integer() {
            return Err(Error::invalid(format!("{by:?} is {}: groups need an integer field", key.kind.text())));
        }
        let most = query.groups_max.unwrap_or(GROUPS_MAX).clamp(1, u32::MAX as usize - 1);
        let partitions = Partitions::of(self, None);
        let size = self.format().size();
        let groups = || Groups::new(&key, &plan.measures, most);
        let workers = pool::fold(
            pool,
            partitions.count(),
            || Worker::new(bound.as_ref(), groups()),
            |worker, at| worker.add(&partitions, at, |groups, strip, rows| groups.add(strip, size, rows)),
            |()| Ok(()),
        )?;
        let mut all = groups();
        for (at, mut worker) in workers.into_iter().enumerate() {
            worker.result.finish();
            if at == 0 { all = worker.result } else { all.merge(&worker.result)? }
        }
        Grouped::new(all, &plan, key)
    }

    fn bind(&self, query: &Query) -> Result<Option<Arc<Bound>>> {
        let condition = query.condition.as_ref();
        Ok(condition.map(|condition| Bound::new(condition, self.format())).transpose()?.map(Arc::new))
    }
}
