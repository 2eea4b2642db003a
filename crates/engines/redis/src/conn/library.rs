//! The Lua functions: one source, as a function library or, where the server has no functions, as scripts.

use std::sync::LazyLock;

/// The functions.
const SOURCE: &str =
    concat!(include_str!("../../lua/windlass.lua"), include_str!("../../lua/fast.lua"));
/// The beginning of the names of the functions. It contains a digest of the source, so that programs of several versions can
/// share a server, and none calls the functions of another.
static PREFIX: LazyLock<String> =
    LazyLock::new(|| format!("windlass_{}_", &redis::Script::new(SOURCE).get_hash()[..8]));

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
    /// The name on the server.
    pub(crate) fn name(self) -> String {
        format!("{}{}", *PREFIX, self.word())
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Commit => "commit",
            Self::Drain => "drain",
            Self::Enqueue => "enqueue",
            Self::Claim => "claim",
            Self::Settle => "settle",
            Self::Beat => "beat",
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
            local prefix = ''
            {SOURCE}
            return functions['{}'](KEYS, ARGV)",
            self.word()
        )
    }
}

/// The source of the library.
pub(crate) fn library() -> String {
    let name = PREFIX.trim_end_matches('_');
    format!("#!lua name={name}\nlocal prefix = '{}'\n{SOURCE}", *PREFIX)
}
