//! The environment of commands, as flags.

use windlass_worker::process::Process;

/// Variables that commands get beside the few that all of them get.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Environment {
    /// With --exec: set a variable for the command; repeatable. Other users of this machine can see it in
    /// the list of processes: use --pass-env for secrets
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<Variable>,
    /// With --exec: pass a variable of this worker on to the command, if it is set; repeatable
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
        _ => Err("write it as NAME=VALUE, as in LOG_LEVEL=debug".to_owned()),
    }
}

impl Environment {
    /// Whether any variable is named.
    pub(crate) const fn any(&self) -> bool {
        !self.env.is_empty() || !self.pass_env.is_empty()
    }

    /// Gives the variables to a command.
    pub(crate) fn on(&self, process: Process) -> Process {
        let process = self.pass_env.iter().fold(process, |process, name| process.pass_env(name));
        self.env.iter().fold(process, |process, Variable { name, value }| process.env(name, value))
    }
}
