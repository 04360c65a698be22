//! Figure 5 drawn: a colored cell for each share of common data and each load, the darker the sooner T-gated answers.

use std::fmt::Write;

const CELL_WIDTH: f64 = 58.0;
const CELL_HEIGHT: f64 = 28.0;
const LEFT: f64 = 70.0;
const TOP: f64 = 44.0;
const RIGHT: f64 = 170.0;
const BOTTOM: f64 = 56.0;

/// Ranges of ratios: the least that belongs to it, what it is called, its color and that of numbers on it.
const RANGES: [(f64, &str, &str, &str); 7] = [
    (0.0, "PS ahead", "#f6c9a8", "#222"),
    (1.0, "up to 1.1", "#ffffff", "#222"),
    (1.1, "1.1 to 1.5", "#d8e6f3", "#222"),
    (1.5, "1.5 to 2", "#aecbe6", "#222"),
    (2.0, "2 to 4", "#74a5d2", "#222"),
    (4.0, "4 to 10", "#3c78b4", "#fff"),
    (10.0, "above 10", "#174a80", "#fff"),
];

fn range(ratio: f64) -> (&'static str, &'static str) {
    let found = RANGES.iter().rev().find(|(least, ..)| ratio >= *least).unwrap_or(&RANGES[0]);
    (found.2, found.3)
}

/// An SVG of ratios: a row for each load from the bottom, a column for each share, both in percent.
pub fn draw(title: &str, shares: &[u32], loads: &[u32], ratios: &[Vec<f64>]) -> String {
    let (wide, high) = (CELL_WIDTH * shares.len() as f64, CELL_HEIGHT * loads.len() as f64);
    let (width, height) = (LEFT + wide + RIGHT, TOP + high + BOTTOM);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"24\" font-size=\"15\">{title}</text>\n"
    );
    // Writing to a string does not fail.
    for (index, (load, row)) in loads.iter().zip(ratios).enumerate() {
        let y = TOP + high - CELL_HEIGHT * (index as f64 + 1.0);
        let middle = y + CELL_HEIGHT / 2.0 + 4.0;
        let _ = writeln!(svg, "<text x=\"{}\" y=\"{middle}\" text-anchor=\"end\">{load} %</text>", LEFT - 6.0);
        for (column, ratio) in row.iter().enumerate() {
            let x = LEFT + CELL_WIDTH * column as f64;
            let (color, ink) = range(*ratio);
            let _ = writeln!(
                svg,
                "<rect x=\"{x}\" y=\"{y}\" width=\"{CELL_WIDTH}\" height=\"{CELL_HEIGHT}\" fill=\"{color}\" stroke=\"#ccc\"/>"
            );
            let center = x + CELL_WIDTH / 2.0;
            let _ = writeln!(
                svg,
                "<text x=\"{center}\" y=\"{middle}\" text-anchor=\"middle\" fill=\"{ink}\">{ratio:.2}</text>"
            );
        }
    }
    for (column, share) in shares.iter().enumerate() {
        let center = LEFT + CELL_WIDTH * (column as f64 + 0.5);
        let _ =
            writeln!(svg, "<text x=\"{center}\" y=\"{}\" text-anchor=\"middle\">{share} %</text>", TOP + high + 18.0);
    }
    let below = TOP + high + 40.0;
    let _ = writeln!(
        svg,
        "<text x=\"{}\" y=\"{below}\" text-anchor=\"middle\">execution time spent fetching common data and code</text>",
        LEFT + wide / 2.0
    );
    let _ = writeln!(svg, "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">load</text>", LEFT - 6.0, TOP - 8.0);
    for (index, (_, name, color, _)) in RANGES.iter().rev().enumerate() {
        let (x, y) = (LEFT + wide + 20.0, TOP + 24.0 * index as f64);
        let _ =
            writeln!(svg, "<rect x=\"{x}\" y=\"{y}\" width=\"16\" height=\"16\" fill=\"{color}\" stroke=\"#999\"/>");
        let _ = writeln!(svg, "<text x=\"{}\" y=\"{}\">{name}</text>", x + 24.0, y + 12.0);
    }
    svg.push_str("</svg>\n");
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_has_the_color_of_its_range() {
        assert_eq!(range(0.99).0, "#f6c9a8");
        assert_eq!((range(1.0).0, range(1.09).0), ("#ffffff", "#ffffff"));
        assert_eq!((range(1.1).0, range(5.0).0, range(1e6).0), ("#d8e6f3", "#3c78b4", "#174a80"));
    }

    #[test]
    fn every_pair_of_load_and_share_has_a_cell_and_higher_loads_are_above() {
        let svg = draw("t", &[1, 50], &[10, 98], &[vec![0.95, 1.05], vec![3.0, 12.5]]);
        // The background, the cells and the legend.
        assert_eq!(svg.matches("<rect").count(), 1 + 4 + RANGES.len());
        let place = |text: &str| {
            let line = svg.lines().find(|line| line.contains(text)).unwrap();
            line.split("y=\"").nth(1).unwrap().split('"').next().unwrap().parse::<f64>().unwrap()
        };
        assert!(place(">12.50<") < place(">0.95<"), "{svg}");
        assert!(svg.contains("fill=\"#fff\">12.50<") && svg.ends_with("</svg>\n"));
    }
}
