//! A flow is a graph of jobs that is enqueued as a whole: chains, groups, chords, trees, and any graph without cycles.
//!
//! # Chain
//!
//! Each job runs after the one before it. `then` is about the order; `feeds` also checks that the next job can read the
//! result.
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use windlass::flow::{Inputs as _, Receives};
//! use windlass::{Ctx, Job, Stop};
//!
//! #[derive(Job, Serialize, Deserialize)]
//! #[job(output = Vec<String>)]
//! struct Download {
//!     url: String,
//! }
//!
//! #[derive(Job, Serialize, Deserialize)]
//! #[job(output = usize)]
//! struct Count {}
//!
//! impl Receives<Vec<String>> for Count {}
//!
//! async fn download(job: Download) -> Result<Vec<String>, Stop> {
//!     Ok(vec![job.url, "second line".into()])
//! }
//!
//! async fn count(_: Count, ctx: Ctx) -> Result<usize, Stop> {
//!     let lines = ctx.inputs().await?.result_of::<Download>("download")?;
//!     Ok(lines.len())
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> windlass::Result<()> {
//! # let client = windlass::connect("memory:").await?;
//! # let worker = client.worker().handle(download).handle(count).build()?.start();
//! let mut flow = client.flow("import-7");
//! let count = flow
//!     .add("download", Download { url: "https://example.org".into() })
//!     .feeds("count", Count {})
//!     .node();
//! let stored = flow.enqueue().await?;
//! assert_eq!(stored.handle(&count).wait().await?, 2);
//! # worker.drain().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Group and chord
//!
//! A group runs side by side. A chord is a group, and a job that runs after all of it.
//!
//! ```
//! # use serde::{Deserialize, Serialize};
//! use windlass::flow::{Inputs as _, Receives};
//! # use windlass::{Ctx, Job, Stop};
//!
//! #[derive(Job, Serialize, Deserialize)]
//! #[job(output = u32)]
//! struct Part {
//!     number: u32,
//! }
//!
//! #[derive(Job, Serialize, Deserialize)]
//! #[job(output = u32)]
//! struct Sum {}
//!
//! impl Receives<u32> for Sum {}
//!
//! async fn part(job: Part) -> Result<u32, Stop> {
//!     Ok(job.number * 10)
//! }
//!
//! async fn sum(_: Sum, ctx: Ctx) -> Result<u32, Stop> {
//!     Ok(ctx.inputs().await?.results::<Part>()?.into_iter().sum())
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> windlass::Result<()> {
//! # let client = windlass::connect("memory:").await?;
//! # let worker = client.worker().handle(part).handle(sum).build()?.start();
//! let mut flow = client.flow("chord");
//! let parts = (1..=3).map(|number| Part { number });
//! let sum = flow.chord(("part", parts), ("sum", Sum {})).node();
//! assert_eq!(flow.enqueue().await?.handle(&sum).wait().await?, 60);
//!
//! // A group, and several jobs after it.
//! let mut flow = client.flow("group");
//! let group = flow.group("part", [Part { number: 1 }, Part { number: 2 }]);
//! let one = flow.add("one", Sum {}).reads_all(&group).node();
//! let other = flow.add("other", Sum {}).reads(&group.nodes()[0]).node();
//! let stored = flow.enqueue().await?;
//! assert_eq!((stored.handle(&one).wait().await?, stored.handle(&other).wait().await?), (30, 10));
//! # worker.drain().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Tree
//!
//! Each job runs after its children and reads their results.
//!
//! ```
//! # use serde::{Deserialize, Serialize};
//! use windlass::flow::{Inputs as _, Receives, Tree};
//! # use windlass::{Ctx, Job, Stop};
//!
//! #[derive(Job, Serialize, Deserialize)]
//! #[job(output = u64)]
//! struct Size {
//!     own: u64,
//! }
//!
//! impl Receives<u64> for Size {}
//!
//! async fn size(job: Size, ctx: Ctx) -> Result<u64, Stop> {
//!     let children = ctx.inputs().await?.results::<Size>()?;
//!     Ok(job.own + children.into_iter().sum::<u64>())
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> windlass::Result<()> {
//! # let client = windlass::connect("memory:").await?;
//! # let worker = client.worker().handle(size).build()?.start();
//! let leaf = |own| Tree::leaf(Size { own });
//! let tree = Tree::of(Size { own: 1 }, [leaf(2), Tree::of(Size { own: 3 }, [leaf(4), leaf(5)])]);
//! let mut flow = client.flow("tree");
//! let root = flow.tree("dir", tree);
//! let stored = flow.enqueue().await?;
//! assert_eq!(stored.handle(&root).wait().await?, 15);
//! assert!(stored.named("dir-1-0").is_some());
//! # worker.drain().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Any graph
//!
//! `add` names a job; `after` and `reads` say what it runs after. A policy says what happens if that job is not completed:
//! by default the dependent is dead, too; with `OnFailure::Cancel` it is cancelled, and with `OnFailure::Run` it runs
//! anyway.
//!
//! ```
//! # use serde::{Deserialize, Serialize};
//! # use windlass::{Ctx, Job, State, Stop};
//! use windlass::model::OnFailure;
//!
//! #[derive(Job, Serialize, Deserialize)]
//! struct Step {
//!     fails: bool,
//! }
//!
//! async fn step(job: Step) -> Result<(), Stop> {
//!     if job.fails { Err(Stop::fatal("it does")) } else { Ok(()) }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> windlass::Result<()> {
//! # let client = windlass::connect("memory:").await?;
//! # let worker = client.worker().handle(step).build()?.start();
//! let mut flow = client.flow("diamond");
//! let first = flow.add("first", Step { fails: false }).node();
//! let left = flow.add("left", Step { fails: true }).after(&first).node();
//! let right = flow.add("right", windlass::job(Step { fails: false }).priority(-1)).after(&first).node();
//! let last = flow
//!     .add("last", Step { fails: false })
//!     .after(left.on_failure(OnFailure::Run))
//!     .after(&right)
//!     .node();
//! let strict = flow.add("strict", Step { fails: false }).after(&left).node();
//! let stored = flow.enqueue().await?;
//! stored.handle(&last).wait().await?;
//! assert_eq!(stored.handle(&strict).get().await?.state, State::Dead);
//! # worker.drain().await;
//! # Ok(())
//! # }
//! ```
//!
//! - All jobs of a flow share its name, and follow-ups inherit it. `windlass flows show NAME` prints the graph.
//! - A flow is stored whole: a bad node is refused with an error that names it, and nothing is stored. One flow has at most
//!   [`ENQUEUE_BATCH_MAX`](crate::limits::ENQUEUE_BATCH_MAX) jobs and
//!   [`BATCH_DEPENDENCIES_MAX`](crate::limits::BATCH_DEPENDENCIES_MAX) dependencies; add more jobs
//!   [after existing ones](crate::flow::NodeBuilder::after_job).
//! - Results of more than [`INPUT_BYTES_MAX`](crate::limits::INPUT_BYTES_MAX) bytes together stay with their jobs, which
//!   retention keeps until the job that reads them has ended.
