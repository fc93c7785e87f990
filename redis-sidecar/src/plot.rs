//! Line charts as SVG files. The same chart gives the same bytes, so that a plot under version
//! control changes only when its figures do.

use plotters::coord::combinators::LogCoord;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::drawing::DrawingAreaErrorKind;
use plotters::prelude::*;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

impl Series {
    /// Adds a point to the series of this name, which begins with it if there is none.
    pub fn add(series: &mut Vec<Self>, name: &str, point: (f64, f64)) {
        match series.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.push(point),
            None => series.push(Self {
                name: name.to_owned(),
                points: vec![point],
            }),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    Linear,
    Log,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    pub title: String,
    pub x_label: String,
    pub y_label: String,
    pub x_scale: Scale,
    pub y_scale: Scale,
    pub series: Vec<Series>,
}

#[derive(Debug, thiserror::Error)]
pub enum PlotError {
    #[error("chart {title:?} has no points")]
    Empty { title: String },
    #[error("chart {title:?}: {value} cannot be drawn; a log scale takes only what is above 0")]
    Value { title: String, value: f64 },
    #[error("chart {title:?} cannot be drawn: {reason}")]
    Draw { title: String, reason: String },
    #[error("cannot write {}: {error}", path.display())]
    Write {
        path: PathBuf,
        error: std::io::Error,
    },
}

const SIZE: (u32, u32) = (860, 460);
/// The legend stands beside the lines, where it can hide none.
const LEGEND_WIDTH: i32 = 170;
/// More points than this and their marks would hide the line.
const MARKED_POINTS_MAX: usize = 60;
/// A log axis that spans less is ticked at powers of two: 1, 2, 4, 8.
const POWERS_OF_TWO_SPAN_MAX: f64 = 100.0;

/// The colours of Okabe and Ito, which colour-blind readers can tell apart; the yellow is darkened
/// to be seen on white.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(0, 0, 0),
    RGBColor(170, 160, 40),
];

type Canvas<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Drawn<'a> = Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>;

impl Chart {
    pub fn write_svg(&self, path: &Path) -> Result<(), PlotError> {
        let svg = self.svg()?;
        std::fs::write(path, svg).map_err(|error| PlotError::Write {
            path: path.to_owned(),
            error,
        })
    }

    fn svg(&self) -> Result<String, PlotError> {
        let x = self.span(self.x_scale, |point| point.0)?;
        let y = self.span(self.y_scale, |point| point.1)?;
        let mut svg = String::new();
        {
            let canvas = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
            self.draw(&canvas, x, y).map_err(|error| PlotError::Draw {
                title: self.title.clone(),
                reason: error.to_string(),
            })?;
        }
        Ok(svg)
    }

    /// The smallest and the largest value on an axis; a linear one begins at 0.
    fn span(&self, scale: Scale, value: fn(&(f64, f64)) -> f64) -> Result<Span, PlotError> {
        let values = || {
            self.series
                .iter()
                .flat_map(|series| &series.points)
                .map(value)
        };
        let drawable = |value: f64| match scale {
            Scale::Linear => value.is_finite(),
            Scale::Log => value.is_finite() && value > 0.0,
        };
        if let Some(value) = values().find(|value| !drawable(*value)) {
            let title = self.title.clone();
            return Err(PlotError::Value { title, value });
        }
        let (low, high) = values()
            .map(|value| (value, value))
            .reduce(|(low, high), (value, _)| (low.min(value), high.max(value)))
            .ok_or_else(|| PlotError::Empty {
                title: self.title.clone(),
            })?;
        Ok(match scale {
            Scale::Linear => Span {
                low: low.min(0.0),
                // An axis of no length cannot be drawn.
                high: if high > low.min(0.0) { high } else { low + 1.0 },
            },
            Scale::Log => Span {
                low,
                high: if high > low { high } else { low * 2.0 },
            },
        })
    }

    fn draw<'a>(&self, canvas: &Canvas<'a>, x: Span, y: Span) -> Drawn<'a> {
        canvas.fill(&WHITE)?;
        let (left, right) = canvas.split_horizontally(SIZE.0 as i32 - LEGEND_WIDTH);
        match (self.x_scale, self.y_scale) {
            (Scale::Linear, Scale::Linear) => self.lines(&left, x.linear(), y.padded().linear()),
            (Scale::Linear, Scale::Log) => self.lines(&left, x.linear(), y.widened().log()),
            (Scale::Log, Scale::Linear) => self.lines(&left, x.log(), y.padded().linear()),
            (Scale::Log, Scale::Log) => self.lines(&left, x.log(), y.widened().log()),
        }?;
        self.legend(&right)
    }

    fn lines<'a, X, Y>(&self, area: &Canvas<'a>, x: X, y: Y) -> Drawn<'a>
    where
        X: AsRangedCoord<Value = f64>,
        Y: AsRangedCoord<Value = f64>,
        X::CoordDescType: ValueFormatter<f64>,
        Y::CoordDescType: ValueFormatter<f64>,
    {
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, ("sans-serif", 18))
            .margin(10)
            .x_label_area_size(42)
            .y_label_area_size(62)
            .build_cartesian_2d(x, y)?;
        chart
            .configure_mesh()
            .max_light_lines(0)
            .bold_line_style(RGBColor(225, 225, 225))
            .label_style(("sans-serif", 13))
            .axis_desc_style(("sans-serif", 14))
            .x_desc(&self.x_label)
            .y_desc(&self.y_label)
            .x_label_formatter(&|value| tick(*value))
            .y_label_formatter(&|value| tick(*value))
            .draw()?;
        let marked = (self.series.iter()).all(|series| series.points.len() <= MARKED_POINTS_MAX);
        for (series, colour) in self.coloured() {
            let points = series.points.iter().copied();
            chart.draw_series(LineSeries::new(points.clone(), colour.stroke_width(2)))?;
            if marked {
                chart.draw_series(points.map(|point| Circle::new(point, 3, colour.filled())))?;
            }
        }
        Ok(())
    }

    fn legend<'a>(&self, area: &Canvas<'a>) -> Drawn<'a> {
        for ((series, colour), row) in self.coloured().zip(0..) {
            let y = 50 + 20 * row;
            let line = vec![(5, y), (29, y)];
            area.draw(&PathElement::new(line, colour.stroke_width(2)))?;
            area.draw(&Circle::new((17, y), 3, colour.filled()))?;
            let name = series.name.as_str();
            area.draw(&Text::new(name, (36, y - 7), ("sans-serif", 14)))?;
        }
        Ok(())
    }

    fn coloured(&self) -> impl Iterator<Item = (&Series, RGBColor)> {
        self.series.iter().zip(COLOURS.into_iter().cycle())
    }
}

#[derive(Debug, Clone, Copy)]
struct Span {
    low: f64,
    high: f64,
}

impl Span {
    /// Room above the highest line.
    fn padded(self) -> Self {
        let high = self.high + (self.high - self.low) * 0.05;
        Self { high, ..self }
    }

    /// The same on a log scale, where there is room below too.
    fn widened(self) -> Self {
        Self {
            low: self.low / 1.1,
            high: self.high * 1.1,
        }
    }

    fn linear(self) -> std::ops::Range<f64> {
        self.low..self.high
    }

    fn log(self) -> LogCoord<f64> {
        let range = (self.low..self.high).log_scale();
        if self.high / self.low <= POWERS_OF_TWO_SPAN_MAX {
            range.base(2.0).into()
        } else {
            range.into()
        }
    }
}

/// Without the noise of binary fractions: 0.30000000000000004 is 0.3.
fn tick(value: f64) -> String {
    let digits = if value.abs() < 1.0 { 4 } else { 2 };
    let text = format!("{value:.digits$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(x_scale: Scale, points: &[(f64, f64)]) -> Chart {
        Chart {
            title: "latency".into(),
            x_label: "clients".into(),
            y_label: "ms".into(),
            x_scale,
            y_scale: Scale::Linear,
            series: vec![Series {
                name: "sewt".into(),
                points: points.to_vec(),
            }],
        }
    }

    #[test]
    fn a_chart_names_its_axes_and_series_and_is_drawn_alike_every_time() {
        let chart = chart(Scale::Log, &[(1.0, 5.0), (32.0, 8.0)]);
        let svg = chart.svg().unwrap();
        for text in ["latency", "clients", "ms", "sewt", "16"] {
            assert!(svg.contains(text), "{text} is missing");
        }
        assert_eq!(svg, chart.svg().unwrap());
    }

    #[test]
    fn a_single_point_is_drawn() {
        assert!(chart(Scale::Log, &[(1.0, 0.0)]).svg().is_ok());
    }

    #[test]
    fn what_a_scale_cannot_show_is_refused() {
        let error = chart(Scale::Log, &[(0.0, 1.0)]).svg().unwrap_err();
        assert!(error.to_string().contains("log scale"), "{error}");
        assert!(chart(Scale::Linear, &[(0.0, f64::NAN)]).svg().is_err());
        assert!(chart(Scale::Linear, &[]).svg().is_err());
    }

    #[test]
    fn ticks_are_short() {
        assert_eq!(tick(0.1 + 0.2), "0.3");
        assert_eq!(tick(100.0), "100");
    }
}
