//! Flags for the environment variables of commands.

use windlass_worker::process::Process;

/// Environment variables of commands, in addition to the default ones.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Environment {
    /// With --exec: environment variable of the command; can be repeated. Other users of this machine can see
    /// its value in the process list: use --pass-env for secrets
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<Variable>,
    /// With --exec: name of an environment variable of this worker to pass to the command, if it is set; can be
    /// repeated
    #[arg(long, value_name = "NAME")]
    pass_env: Vec<String>,
}

#[derive(Clone, Debug)]
struct Variable {
    name: String,
    value: String,
}

fn variable(text: &str) -> Result<Variable, String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => {
            Ok(Variable { name: name.to_owned(), value: value.to_owned() })
        }
        _ => Err("use NAME=VALUE, e.g. LOG_LEVEL=debug".to_owned()),
    }
}

impl Environment {
    /// Whether any variable is given.
    pub(crate) const fn any(&self) -> bool {
        !self.env.is_empty() || !self.pass_env.is_empty()
    }

    /// Adds the variables to a command.
    pub(crate) fn on(&self, process: Process) -> Process {
        let process = self.pass_env.iter().fold(process, |process, name| process.pass_env(name));
        self.env.iter().fold(process, |process, Variable { name, value }| process.env(name, value))
    }
}
