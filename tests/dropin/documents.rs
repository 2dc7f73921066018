//! What the documentation says of the environment is what the program does.

use tidegate::cli::reference::markdown;

const GUIDE: &str = include_str!("../../docs/migration.md");

#[test]
fn the_table_of_variables_is_the_one_in_force() {
    assert!(GUIDE.contains(&markdown()), "docs/migration.md needs this table:\n\n{}", markdown());
}
