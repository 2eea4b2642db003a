//! The Lua functions: one source, as a function library or, where the server has no functions, as scripts.

/// The functions.
const SOURCE: &str =
    concat!(include_str!("../../lua/windlass.lua"), include_str!("../../lua/fast.lua"));
/// The library carries its version in its name and in the names of its functions, so that programs of several versions
/// can share a server.
const LIBRARY: &str = "#!lua name=windlass_1\n";

/// A function of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    /// Reads.
    Load,
    /// Writes if nothing that was read has changed.
    Commit,
    /// The same for verbs that must work when memory is full.
    Drain,
    /// Stores plain jobs.
    Enqueue,
    /// Leases plain jobs of one queue.
    Claim,
    /// Completes plain jobs, and claims.
    Settle,
    /// Keeps a session alive.
    Beat,
}

impl Function {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Load => "windlass_1_load",
            Self::Commit => "windlass_1_commit",
            Self::Drain => "windlass_1_drain",
            Self::Enqueue => "windlass_1_enqueue",
            Self::Claim => "windlass_1_claim",
            Self::Settle => "windlass_1_settle",
            Self::Beat => "windlass_1_beat",
        }
    }

    const fn works_without_memory(self) -> bool {
        match self {
            Self::Load | Self::Drain | Self::Claim | Self::Settle | Self::Beat => true,
            Self::Commit | Self::Enqueue => false,
        }
    }

    /// The script that runs this function on servers without functions.
    pub(crate) fn script(self) -> String {
        let flags = if self.works_without_memory() { "#!lua flags=allow-oom\n" } else { "#!lua\n" };
        format!(
            "{flags}local functions = {{}}
            local redis = setmetatable({{ register_function = function(it)
                functions[it.function_name] = it.callback end }}, {{ __index = redis }})
            {SOURCE}
            return functions['{}'](KEYS, ARGV)",
            self.name()
        )
    }
}

/// The source of the library.
pub(crate) fn library() -> String {
    format!("{LIBRARY}{SOURCE}")
}
