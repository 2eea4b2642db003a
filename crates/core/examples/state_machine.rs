//! Prints docs/state-machine.md from the code: the diagram and the full table.
//!
//! `cargo run -p windlass-core --example state_machine > docs/state-machine.md`

use windlass_core::machine::table;

fn main() {
    println!("# The state machine\n");
    println!("Made from `windlass_core::machine::step` by");
    println!("`cargo run -p windlass-core --example state_machine > docs/state-machine.md`;");
    println!("a test says when it is out of date.\n");
    println!("```mermaid\n{}```\n", table::mermaid());
    println!(
        "Every transition that is possible. What is not in the table is refused, with advice.\n"
    );
    print!("{}", table::markdown());
}
