//! Eigenvectors of small symmetric matrices.

/// Eigenvalues and orthonormal eigenvectors (`vectors[k]` belongs to `values[k]`), the largest first.
#[derive(Debug)]
pub(crate) struct Eigen {
    pub(crate) values: Vec<f64>,
    pub(crate) vectors: Vec<Vec<f64>>,
}

/// Number of sweeps after which rotations are certainly negligible; ten are usual.
const SWEEPS: usize = 50;

/// Jacobi's method (Golub and Van Loan, section 8.5): short, and exact to rounding also for the small eigenvalues.
pub(crate) fn eigen(mut matrix: Vec<Vec<f64>>) -> Eigen {
    let size = matrix.len();
    let mut vectors: Vec<Vec<f64>> = (0..size)
        .map(|row| (0..size).map(|column| f64::from(u8::from(row == column))).collect())
        .collect();
    let whole: f64 = matrix.iter().flatten().map(|x| x * x).sum();
    for _ in 0..SWEEPS {
        let off: f64 = (0..size)
            .flat_map(|row| (0..row).map(move |column| (row, column)))
            .map(|(row, column)| matrix[row][column].powi(2))
            .sum();
        if off <= 1e-30 * whole {
            break;
        }
        for p in 0..size {
            for q in p + 1..size {
                rotate(&mut matrix, &mut vectors, p, q);
            }
        }
    }
    let mut order: Vec<usize> = (0..size).collect();
    order.sort_by(|&a, &b| matrix[b][b].total_cmp(&matrix[a][a]));
    Eigen {
        values: order.iter().map(|&k| matrix[k][k]).collect(),
        vectors: order.iter().map(|&k| vectors[k].clone()).collect(),
    }
}

/// Makes one entry zero; the rows of `vectors` rotate, too.
fn rotate(matrix: &mut [Vec<f64>], vectors: &mut [Vec<f64>], p: usize, q: usize) {
    if matrix[p][q] == 0.0 {
        return;
    }
    let theta = (matrix[q][q] - matrix[p][p]) / (2.0 * matrix[p][q]);
    let tangent = theta.signum() / (theta.abs() + theta.hypot(1.0));
    let cosine = 1.0 / tangent.hypot(1.0);
    let sine = tangent * cosine;
    let turn = |a: f64, b: f64| (cosine * a - sine * b, sine * a + cosine * b);
    for row in matrix.iter_mut() {
        (row[p], row[q]) = turn(row[p], row[q]);
    }
    turn_rows(matrix, p, q, turn);
    turn_rows(vectors, p, q, turn);
}

fn turn_rows(rows: &mut [Vec<f64>], p: usize, q: usize, turn: impl Fn(f64, f64) -> (f64, f64)) {
    let (before, after) = rows.split_at_mut(q);
    for (a, b) in before[p].iter_mut().zip(after[0].iter_mut()) {
        (*a, *b) = turn(*a, *b);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn puts_a_matrix_together_again() {
        let matrix: Vec<Vec<f64>> = (0..7)
            .map(|i| {
                (0..7)
                    .map(|j| 1.0 / f64::from(i + j + 1) + f64::from(u8::from(i == j)))
                    .collect()
            })
            .collect();
        let pairs = eigen(matrix.clone());
        assert!(pairs.values.windows(2).all(|pair| pair[0] >= pair[1]));
        for (i, row) in matrix.iter().enumerate() {
            for (j, entry) in row.iter().enumerate() {
                let sum: f64 = (0..7)
                    .map(|k| pairs.values[k] * pairs.vectors[k][i] * pairs.vectors[k][j])
                    .sum();
                assert!((sum - entry).abs() < 1e-12, "{i} {j}");
            }
        }
    }
}
