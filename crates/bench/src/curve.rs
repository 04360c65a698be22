//! Numbers over a quantity, drawn. Most often each of its values is a multiple of the one before: times over memory
//! budgets as in Gamma's figure 14 (DeWitt et al. 1988), over sizes, over workers. Or they are as far apart as one
//! likes, such as shares of a time.

use std::fmt::Write;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 140.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;
/// One for each contestant, ourselves first.
const COLORS: [&str; 7] = ["#c0392b", "#2c6fbb", "#2e8b57", "#8e5ea2", "#d98c00", "#555555", "#00a0a0"];
/// Lines across at most.
const GRID_LINES: f64 = 6.0;

/// An SVG with a line for each contestant: a number of `unit` at each point of the axis (its name and its value, drawn
/// logarithmically), none where it failed.
pub fn draw(title: &str, unit: &str, axis: &[(String, u64)], lines: &[(String, Vec<Option<f64>>)]) -> String {
    let axis: Vec<_> = axis.iter().map(|(name, value)| (name.as_str(), (*value as f64).log2())).collect();
    drawn(title, unit, &axis, lines)
}

/// The same with a point of the axis for each name, all as far from the next.
pub fn draw_even(title: &str, unit: &str, names: &[String], lines: &[(String, Vec<Option<f64>>)]) -> String {
    let axis: Vec<_> = names.iter().enumerate().map(|(place, name)| (name.as_str(), place as f64)).collect();
    drawn(title, unit, &axis, lines)
}

/// The axis: the names of its points, and how far to the right they are.
fn drawn(title: &str, unit: &str, axis: &[(&str, f64)], lines: &[(String, Vec<Option<f64>>)]) -> String {
    let (least, most) =
        axis.iter().map(|(_, place)| place).fold((f64::MAX, f64::MIN), |(a, b), &place| (a.min(place), b.max(place)));
    let x = |place: f64| {
        let share = if most > least { (place - least) / (most - least) } else { 0.5 };
        LEFT + share * (WIDTH - LEFT - RIGHT)
    };
    let longest = lines.iter().flat_map(|(_, numbers)| numbers.iter().flatten()).fold(1e-3_f64, |a, &b| a.max(b));
    let step = grid_step(longest);
    let top = (longest / step).ceil() * step;
    let y = |number: f64| HEIGHT - BOTTOM - number / top * (HEIGHT - TOP - BOTTOM);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"22\" font-size=\"15\">{title}</text>\n"
    );
    // Writing to a string does not fail.
    let mut number = 0.0;
    while number <= top + step / 2.0 {
        let (at, right) = (y(number), WIDTH - RIGHT);
        let _ = writeln!(svg, "<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#ddd\"/>");
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{} {unit}</text>",
            LEFT - 6.0,
            at + 4.0,
            short(number)
        );
        number += step;
    }
    for &(name, place) in axis {
        let (at, low) = (x(place), HEIGHT - 26.0);
        let _ = writeln!(svg, "<text x=\"{at:.1}\" y=\"{low}\" text-anchor=\"middle\">{name}</text>");
    }
    for (index, (name, numbers)) in lines.iter().enumerate() {
        let color = COLORS[index % COLORS.len()];
        let mut points: Vec<(f64, f64)> =
            axis.iter().zip(numbers).filter_map(|(&(_, place), number)| Some((x(place), y((*number)?)))).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"/>",
            path.join(" ")
        );
        for (x, y) in &points {
            let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{color}\"/>");
        }
        let at = TOP + 16.0 * (index as f64 + 1.0);
        let _ = writeln!(svg, "<text x=\"{}\" y=\"{at}\" fill=\"{color}\">{name}</text>", WIDTH - RIGHT + 14.0);
    }
    svg.push_str("</svg>\n");
    svg
}

/// 1, 2 or 5 times a power of ten, so that there are few lines.
fn grid_step(longest: f64) -> f64 {
    let power = 10_f64.powf((longest / GRID_LINES).log10().floor());
    let factors = [1.0, 2.0, 5.0, 10.0];
    factors.into_iter().map(|factor| factor * power).find(|step| longest / step <= GRID_LINES).unwrap_or(10.0 * power)
}

fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_contestant_has_a_line_and_failures_have_no_point() {
        let budgets = [("256MB".to_owned(), 256), ("1GB".to_owned(), 1000)];
        let lines = [("a".to_owned(), vec![Some(4.0), Some(2.0)]), ("b".to_owned(), vec![None, Some(3.0)])];
        let svg = draw("sort", "s", &budgets, &lines);
        assert_eq!((svg.matches("<polyline").count(), svg.matches("<circle").count()), (2, 3));
        assert!(svg.contains(">256MB<") && svg.ends_with("</svg>\n"));
    }

    #[test]
    fn an_even_axis_begins_at_the_left_and_ends_at_the_right() {
        let svg = draw_even("t", "s", &["0".into(), "10".into(), "100".into()], &[("a".into(), vec![Some(1.0); 3])]);
        let middle = (LEFT + WIDTH - RIGHT) / 2.0;
        for (name, place) in [("0", LEFT), ("10", middle), ("100", WIDTH - RIGHT)] {
            let low = HEIGHT - 26.0;
            let label = format!("<text x=\"{place:.1}\" y=\"{low}\" text-anchor=\"middle\">{name}</text>");
            assert!(svg.contains(&label), "{label}\n{svg}");
        }
    }

    #[test]
    fn grid_lines_are_round_and_few() {
        assert_eq!((grid_step(45.0), grid_step(6.0), grid_step(0.5)), (10.0, 1.0, 0.1));
    }
}
