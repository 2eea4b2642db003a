//! The results that a job receives from those that it runs after.

use crate::client::{HasOutput, Untyped};
use crate::error::{Error, Result};
use crate::json;
use windlass_core::TypedJob;
use windlass_core::model::Input;

/// A job whose handler reads results of type `T` from the jobs that it runs after.
///
/// [`NodeBuilder::reads`](super::NodeBuilder::reads) and the shapes require it, so that a flow in which a job cannot read
/// what it receives does not compile:
///
/// ```compile_fail
/// # use serde::{Deserialize, Serialize};
/// #[derive(windlass::Job, Serialize, Deserialize)]
/// #[job(output = u64)]
/// struct Count {}
/// #[derive(windlass::Job, Serialize, Deserialize)]
/// struct Print {}
/// impl windlass::flow::Receives<String> for Print {}
///
/// # fn add(client: windlass::Client) {
/// let mut flow = client.flow("f");
/// flow.add("count", Count {}).feeds("print", Print {}); // `Print` reads a `String`, not a `u64`
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not read results of type `{T}`",
    note = "implement `windlass::flow::Receives<{T}>` for `{Self}`, or use `after` if only the order matters"
)]
pub trait Receives<T> {}

impl<T> Receives<T> for Untyped {}

/// Reads the inputs of a job, as a handler gets them from `ctx.inputs()`.
pub trait Inputs {
    /// The result of the dependency with this name, which is a job of type `J`. An error if there is no such dependency,
    /// if it was not completed, or if its result was [omitted](Input::omitted).
    fn result_of<J: TypedJob>(&self, name: &str) -> Result<J::Output>;

    /// The results of all dependencies that were completed, in order; all are jobs of type `J`.
    fn results<J: HasOutput>(&self) -> Result<Vec<J::Output>>;
}

impl Inputs for [Input] {
    fn result_of<J: TypedJob>(&self, name: &str) -> Result<J::Output> {
        let input = self.iter().find(|input| input.name.as_deref() == Some(name));
        match input {
            Some(input) => read::<J>(input),
            None => {
                let expected = "the job has no dependency with this name";
                Err(windlass_core::Error::invalid("after.name", name, expected).into())
            }
        }
    }

    fn results<J: HasOutput>(&self) -> Result<Vec<J::Output>> {
        let completed = |input: &&Input| input.outcome.is_some() && !was_not_completed(input);
        self.iter().filter(completed).map(read::<J>).collect()
    }
}

fn was_not_completed(input: &Input) -> bool {
    input.outcome != Some(windlass_core::model::State::Completed)
}

fn read<J: HasOutput>(input: &Input) -> Result<J::Output> {
    let id = input.job;
    let unreadable = |reason: String| Error::Unreadable { id, part: "result", reason };
    match input.outcome {
        Some(outcome) if was_not_completed(input) => {
            Err(unreadable(format!("the job is {outcome}, not completed")))
        }
        None => Err(unreadable("the job has not ended".to_owned())),
        Some(_) if input.omitted => {
            let reason =
                "all results together are too large: read it from the job, e.g. with `Client::job`";
            Err(unreadable(reason.to_owned()))
        }
        Some(_) => json::read(id, "result", input.result.as_ref()),
    }
}
