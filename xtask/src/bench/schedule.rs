//! Orders the cells: Windlass, a peer, Windlass again, so that a temporary slowdown of the machine affects both
//! sides of a ratio.

use super::cell::Cell;
use super::contender::{Contender, Family};
use super::workload::Workload;

/// Places every peer between two measurements of Windlass, per workload, `rounds` times. Every second round is
/// reversed, so that no peer is always first.
pub(super) fn cells(contenders: &[Contender], workloads: &[Workload], rounds: u32) -> Vec<Cell> {
    let mut cells = Vec::new();
    for round in 0..rounds {
        for &workload in workloads {
            for family in Family::ALL {
                let mut peers: Vec<&Contender> =
                    contenders.iter().filter(|it| it.family() == family && !it.is_ours()).collect();
                if round % 2 == 1 {
                    peers.reverse();
                }
                let ours = contenders.iter().find(|it| it.family() == family && it.is_ours());
                let ours = ours.map(|ours| Cell { workload, contender: *ours });
                if !peers.is_empty() {
                    cells.extend(ours);
                }
                for peer in peers {
                    cells.push(Cell { workload, contender: *peer });
                    cells.extend(ours);
                }
            }
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(cells: &[Cell]) -> Vec<&str> {
        cells.iter().map(|cell| cell.contender.name).collect()
    }

    #[test]
    fn every_peer_is_measured_between_two_of_ours() {
        let all =
            Contender::select(&["pg-boss".into(), "awa".into(), "beanstalkd".into()]).unwrap();
        let cells = cells(&all, &[Workload::W3], 2);
        let (postgres, local) = ("windlass-postgres", "windlass-local");
        let first = [postgres, "pg-boss", postgres, "awa", postgres, local, "beanstalkd", local];
        let second = [postgres, "awa", postgres, "pg-boss", postgres, local, "beanstalkd", local];
        assert_eq!(names(&cells[..8]), first);
        assert_eq!(names(&cells[8..]), second);
    }
}
