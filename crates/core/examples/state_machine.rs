//! Prints docs/state-machine.md from the code: the diagram and the full table.
//!
//! `cargo run -p windlass-core --example state_machine > docs/state-machine.md`

use windlass_core::machine::table;

fn main() {
    println!("# The state machine\n");
    println!("Generated from `windlass_core::machine::step` by");
    println!("`cargo run -p windlass-core --example state_machine > docs/state-machine.md`;");
    println!("a test fails when it is out of date.\n");
    println!("```mermaid\n{}```\n", table::mermaid());
    println!(
        "Every possible transition; any other event is refused, with advice. Exactly these effects are"
    );
    println!(
        "executed, in this order and in one atomic step. `windlass_core::machine::Effect` describes them.\n"
    );
    print!("{}", table::markdown());
}
