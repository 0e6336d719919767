//! Small charts as SVG: lines and areas over two axes, and bars in pieces. Pure text from numbers.

use std::fmt::Write;

use askama::filters::Escaper;

use super::escape::Escape;

/// A drawing, in units that a browser scales to the width it has.
#[derive(Clone, Copy)]
pub(super) struct Frame {
    width: f64,
    height: f64,
}

/// One of many beside each other.
pub(super) const PANEL: Frame = Frame { width: 340.0, height: 208.0 };

/// A chart that fills the page's width.
pub(super) const WIDE: Frame = Frame { width: 720.0, height: 330.0 };

/// The same chart on a telephone, where the wide one would be too small to read.
pub(super) const NARROW: Frame = Frame { width: 340.0, height: 300.0 };

/// Room beside and above the axes.
const LEFT: f64 = 52.0;
const RIGHT: f64 = 18.0;
const TOP: f64 = 22.0;
const BOTTOM: f64 = 38.0;

/// Width of a letter (of a bold, wide font) and height of a line, which tell whether labels overlap.
const LETTER: f64 = 7.0;
const LINE: f64 = 13.0;

/// Distance from the centre of a dot to its label, and half the room that a dot itself takes.
const GAP: f64 = 8.0;
const DOT: f64 = 6.0;

/// A rectangle of a drawing that is in use.
#[derive(Clone, Copy)]
struct Area {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl Area {
    fn around(x: f64, y: f64, half_width: f64, half_height: f64) -> Self {
        Self { left: x - half_width, right: x + half_width, top: y - half_height, bottom: y + half_height }
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.left < other.right && other.left < self.right && self.top < other.bottom && other.top < self.bottom
    }

    fn is_inside(&self, other: &Self) -> bool {
        self.left >= other.left && self.right <= other.right && self.top >= other.top && self.bottom <= other.bottom
    }
}

/// Finds room for the label of the dot at `(x, y)`: right of it, left, above or below.
fn place_label(label: &str, (x, y): (f64, f64), within: &Area, taken: &[Area]) -> Option<Area> {
    let half = label.chars().count() as f64 * LETTER / 2.0;
    let centres = [(x + GAP + half, y), (x - GAP - half, y), (x, y - GAP - LINE / 2.0), (x, y + GAP + LINE / 2.0)];
    let areas = centres.map(|(x, y)| Area::around(x, y, half, LINE / 2.0));
    areas.into_iter().find(|area| area.is_inside(within) && !taken.iter().any(|other| other.overlaps(area)))
}

/// One axis.
pub(super) struct Axis {
    pub from: f64,
    pub to: f64,
    /// Where it is marked, and with what.
    pub ticks: Vec<(f64, String)>,
    /// What is counted.
    pub label: String,
}

impl Axis {
    /// From 0 to at least `max`, marked at about `count` round numbers; `show` writes them.
    pub fn linear(max: f64, count: f64, label: &str, show: impl Fn(f64) -> String) -> Self {
        let step = round_step(max.max(f64::MIN_POSITIVE) / count);
        let to = (max / step).ceil().max(1.0) * step;
        let marks = (to / step).round() as u32;
        let ticks = (0..=marks).map(|mark| (f64::from(mark) * step, show(f64::from(mark) * step))).collect();
        Self { from: 0.0, to, ticks, label: label.to_owned() }
    }

    /// From 0 to exactly `max`, marked at round numbers below it.
    pub fn up_to(max: f64, count: f64, label: &str, show: impl Fn(f64) -> String) -> Self {
        let mut axis = Self::linear(max, count, label, show);
        axis.to = max.max(f64::MIN_POSITIVE);
        axis.ticks.retain(|(value, _)| *value <= max);
        axis
    }

    /// From and to powers of ten around the values, on a logarithmic scale; positions are logarithms to base ten.
    pub fn powers_of_ten(low: f64, high: f64, label: &str, show: impl Fn(f64) -> String) -> Self {
        let from = low.max(1.0).log10().floor();
        let to = high.max(1.0).log10().ceil().max(from + 1.0);
        let ticks = (from as i32..=to as i32).map(|power| (f64::from(power), show(10_f64.powi(power)))).collect();
        Self { from, to, ticks, label: label.to_owned() }
    }

    /// From none to 99.9 % of something, each further nine as wide as the one before; see `nines` for positions.
    pub fn nines(label: &str) -> Self {
        let ticks = [(0.0, "0"), (0.301, "50 %"), (1.0, "90 %"), (2.0, "99 %"), (3.0, "99.9 %")];
        Self {
            from: 0.0,
            to: 3.0,
            ticks: ticks.map(|(at, text)| (at, text.to_owned())).to_vec(),
            label: label.to_owned(),
        }
    }

    fn share(&self, value: f64) -> f64 {
        ((value - self.from) / (self.to - self.from)).clamp(0.0, 1.0)
    }
}

/// 1, 2 or 5 times a power of ten, at least `step`.
fn round_step(step: f64) -> f64 {
    let power = 10_f64.powf(step.log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|&round| round >= step * 0.999).unwrap_or(step)
}

/// One curve of a panel.
pub(super) struct Series<'a> {
    /// Its class in the style sheet; one that begins with `area` is closed down to the axis.
    pub class: &'a str,
    pub points: Vec<(f64, f64)>,
}

/// One point with a name.
#[derive(Clone)]
pub(super) struct Dot<'a> {
    /// Its class in the style sheet.
    pub class: &'a str,
    pub at: (f64, f64),
    /// What it is, which a browser shows beside it.
    pub title: String,
    /// What is written beside it, where there is room.
    pub label: Option<&'a str>,
}

/// A part of the horizontal axis.
pub(super) struct Band<'a> {
    pub class: &'a str,
    pub from: f64,
    pub to: f64,
}

/// What is drawn between two axes, in this order.
#[derive(Default)]
pub(super) struct Drawing<'a> {
    pub bands: Vec<Band<'a>>,
    pub series: Vec<Series<'a>>,
    pub dots: Vec<Dot<'a>>,
}

/// A chart with two axes. Its title, and titles and labels of dots, may be any text; those of the axes and all classes are
/// constants.
pub(super) fn panel(frame: Frame, title: &str, x: &Axis, y: &Axis, drawing: &Drawing<'_>) -> String {
    let Frame { width, height } = frame;
    let (right, bottom) = (width - RIGHT, height - BOTTOM);
    let across = |value: f64| LEFT + x.share(value) * (right - LEFT);
    let up = |value: f64| bottom - y.share(value) * (bottom - TOP);
    let mut svg = format!("<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"");
    let _ = Escape.write_escaped_str(&mut svg, title);
    svg.push_str("\">");
    for Band { class, from, to } in &drawing.bands {
        let (from, to) = (across(*from), across(*to));
        let (wide, high) = ((to - from).max(1.0), bottom - TOP);
        let _ =
            write!(svg, "<rect class=\"{class}\" x=\"{from:.1}\" y=\"{TOP}\" width=\"{wide:.1}\" height=\"{high}\"/>");
    }
    for (value, text) in &y.ticks {
        let at = up(*value);
        let _ = write!(svg, "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>");
        let _ = write!(svg, "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>", LEFT - 6.0, at + 3.5);
    }
    for (value, text) in &x.ticks {
        let at = across(*value);
        let end = bottom + 4.0;
        let _ = write!(svg, "<line class=\"axis\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{bottom}\" y2=\"{end:.1}\"/>");
        let _ = write!(svg, "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{text}</text>", bottom + 16.0);
    }
    let _ = write!(svg, "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{bottom}\" y2=\"{bottom}\"/>");
    let middle = f64::midpoint(LEFT, right);
    let _ = write!(svg, "<text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>", height - 4.0, x.label);
    let _ = write!(svg, "<text x=\"2\" y=\"10\">{}</text>", y.label);
    for Series { class, points } in &drawing.series {
        let mut path = String::new();
        for (index, (at_x, at_y)) in points.iter().enumerate() {
            let _ = write!(path, "{}{:.1},{:.1}", if index == 0 { "M" } else { "L" }, across(*at_x), up(*at_y));
        }
        let (Some(first), Some(last)) = (points.first(), points.last()) else { continue };
        if class.starts_with("area") {
            let _ = write!(path, "L{:.1},{bottom}L{:.1},{bottom}Z", across(last.0), across(first.0));
        }
        let _ = write!(svg, "<path class=\"{class}\" d=\"{path}\"/>");
    }
    let within = Area { left: LEFT, right: width, top: TOP - LINE / 2.0, bottom };
    let labelled = drawing.dots.iter().filter(|dot| dot.label.is_some());
    let mut taken: Vec<Area> = labelled.map(|dot| Area::around(across(dot.at.0), up(dot.at.1), DOT, DOT)).collect();
    for Dot { class, at, title, label } in &drawing.dots {
        let (at_x, at_y) = (across(at.0), up(at.1));
        let _ = write!(svg, "<circle class=\"{class}\" cx=\"{at_x:.1}\" cy=\"{at_y:.1}\"><title>");
        let _ = Escape.write_escaped_str(&mut svg, title);
        svg.push_str("</title></circle>");
        let Some(label) = label else { continue };
        let Some(area) = place_label(label, (at_x, at_y), &within, &taken) else { continue };
        taken.push(area);
        let (x, y) = (f64::midpoint(area.left, area.right), f64::midpoint(area.top, area.bottom) + 3.5);
        let _ = write!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\" class=\"{class}\">");
        let _ = Escape.write_escaped_str(&mut svg, label);
        svg.push_str("</text>");
    }
    svg.push_str("</svg>");
    svg
}

/// A bar in pieces, each with its class and its share of the whole width.
pub(super) fn pieces(title: &str, pieces: &[(&str, f64)]) -> String {
    let mut svg = String::from("<svg viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"");
    let _ = Escape.write_escaped_str(&mut svg, title);
    svg.push_str("\">");
    let mut at = 0.0;
    for (class, share) in pieces {
        let width = share.clamp(0.0, 1.0) * 1000.0;
        let _ = write!(svg, "<rect class=\"{class}\" x=\"{at:.1}\" width=\"{width:.1}\" y=\"0\" height=\"10\"/>");
        at += width;
    }
    svg.push_str("</svg>");
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_are_marked_at_round_numbers() {
        let marks = |max: f64| {
            Axis::linear(max, 4.0, "", |it| format!("{it}")).ticks.into_iter().map(|it| it.1).collect::<Vec<_>>()
        };
        assert_eq!(marks(1000.0), ["0", "500", "1000"]);
        assert_eq!(marks(7.3), ["0", "2", "4", "6", "8"]);
        let exact = Axis::up_to(64.0, 4.0, "", |it| format!("{it}"));
        assert_eq!((exact.to, exact.ticks.len()), (64.0, 4), "0, 20, 40 and 60");
        assert_eq!(marks(0.0).len(), 2, "an axis of nothing is still an axis");
        let axis = Axis::powers_of_ten(850.0, 2e6, "", |it| format!("{it}"));
        assert_eq!((axis.from, axis.to), (2.0, 7.0));
        assert_eq!(axis.share(4.5), 0.5);
    }

    #[test]
    fn curves_stay_inside_the_drawing() {
        let axis = Axis::linear(10.0, 5.0, "s", |it| format!("{it}"));
        let of = |series: Vec<Series<'_>>| panel(PANEL, "t", &axis, &axis, &Drawing { series, ..Drawing::default() });
        let svg = of(vec![Series { class: "line", points: vec![(-5.0, 50.0), (50.0, -5.0)] }]);
        assert!(svg.contains("d=\"M52.0,22.0L322.0,170.0\""), "{svg}");
        let nothing = of(vec![Series { class: "line", points: Vec::new() }]);
        assert!(!nothing.contains("<path"), "{nothing}");
    }

    #[test]
    fn dot_labels_do_not_overlap() {
        let within = Area { left: LEFT, right: 340.0, top: TOP, bottom: 262.0 };
        let dots: Vec<(f64, f64)> =
            (0..40).map(|i| (f64::from(i * 37 % 280) + LEFT, f64::from(i * 53 % 230) + 25.0)).collect();
        let mut taken: Vec<Area> = dots.iter().map(|(x, y)| Area::around(*x, *y, DOT, DOT)).collect();
        for at in &dots {
            taken.extend(place_label("ingest-zstd", *at, &within, &taken));
        }
        assert!(taken.len() > 44, "{} labels have a place", taken.len() - 40);
        for (index, area) in taken.iter().enumerate().skip(40) {
            assert!(area.is_inside(&within));
            assert!(!taken.iter().take(index).any(|other| other.overlaps(area)), "label {index}");
        }
    }

    #[test]
    fn dot_labels_are_escaped() {
        let axis = Axis::linear(10.0, 5.0, "s", |it| format!("{it}"));
        let dot = |label, at| Dot { class: "dot", at, title: "<b>".into(), label: Some(label) };
        let dots = vec![dot("a<b", (5.0, 5.0)), dot("at-the-right-end", (10.0, 8.0))];
        for frame in [WIDE, NARROW] {
            let svg = panel(frame, "t", &axis, &axis, &Drawing { dots: dots.clone(), ..Drawing::default() });
            assert_eq!(svg.matches("<circle").count(), 2);
            assert!(svg.contains(">a&lt;b</text>") && svg.contains("<title>&lt;b&gt;</title>"), "{svg}");
            assert!(svg.contains(">at-the-right-end<"), "{svg}");
        }
    }
}
