package page

import (
	"cmp"
	"math"
	"slices"

	"github.com/elector-go/elector/cmd/elector/internal/report"
	"github.com/elector-go/elector/strategy/catalog"
)

// A look is how a strategy is drawn everywhere: by colour, by the shape of its marks and by its dashes, so
// that each of the three suffices to recognize it.
type look struct {
	ink   ink
	dash  string
	shape shape
}

// looks are for the library's strategies, in the order of package catalog, and then for others; in the end
// they repeat. In chart.css the inks are Okabe and Ito's, darkened or lightened until text can be read in
// them.
var looks = []look{
	{"blue", "", disc},
	{"rust", "6 3", triangle},
	{"plum", "2 3", square},
	{"green", "8 3 2 3", diamond},
	{"olive", "10 2 2 2 2 2", star},
	{"teal", "1 2", plus},
	{"indigo", "10 3", cross},
	{"grey", "4 2 1 2 1 2", ring},
}

func newView(r report.Report) view {
	v := view{r, strategies(r.Runs), make(map[string]look)}
	known := catalog.Names()
	unknown := 0
	for _, name := range v.order {
		i := slices.Index(known, name)
		if i < 0 {
			i = len(known) + unknown
			unknown++
		}
		v.looks[name] = looks[i%len(looks)]
	}
	return v
}

// strategies returns the strategies of the runs: the known ones first, always in the same order, and then the
// others by name.
func strategies(runs []report.Run) (names []string) {
	for _, run := range runs {
		names = append(names, run.Strategy)
	}
	known := catalog.Names()
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(uint(slices.Index(known, a)), uint(slices.Index(known, b))), cmp.Compare(a, b)) // -1 becomes the last
	})
	return slices.Compact(names)
}

// line returns the pen for a strategy's lines.
func (l look) line() pen { return pen{l.ink, 1.6, l.dash} }

// A shape is the shape of a mark.
type shape int

const (
	disc shape = iota
	ring
	plus
	cross
	square
	triangle
	diamond
	star
)

// corners are the corners of shapes, for a radius of 1: all marks look about the same size.
var corners = map[shape][]place{
	square:   {{-0.88, 0.88}, {0.88, 0.88}, {0.88, -0.88}, {-0.88, -0.88}},
	triangle: {{-1.14, 0.84}, {1.14, 0.84}, {0, -1.2}},
	diamond:  {{-1.25, 0}, {0, 1.25}, {1.25, 0}, {0, -1.25}},
	star: {{0, -1.35}, {-0.351, -0.486}, {-1.2825, -0.4185}, {-0.5805, 0.189}, {-0.7965, 1.0935},
		{0, 0.6075}, {0.7965, 1.0935}, {0.5805, 0.189}, {1.2825, -0.4185}, {0.351, -0.486}},
}

// mark draws a shape around a place.
func (c *canvas) mark(s shape, i ink, at place, radius float64) {
	thin := pen{ink: i, width: 0.5}
	switch s {
	case disc:
		c.fill(i, circle(at, radius))
	case ring:
		c.stroke(thin, circle(at, radius))
	case plus:
		c.stroke(thin, along(place{at.x, at.y - radius}, place{at.x, at.y + radius})+along(place{at.x - radius, at.y}, place{at.x + radius, at.y}))
	case cross:
		c.cross(thin, at, radius*math.Sqrt2/2)
	default:
		var edge []place
		for _, corner := range corners[s] {
			edge = append(edge, place{at.x + radius*corner.x, at.y + radius*corner.y})
		}
		c.fill(i, along(edge...)+"Z")
	}
}

// curve draws a line with marks.
func (c *canvas) curve(l look, radius float64, at ...place) {
	c.stroke(l.line(), along(at...))
	for _, at := range at {
		c.mark(l.shape, l.ink, at, radius)
	}
}

// specimen draws a piece of line, with one mark in its middle.
func (c *canvas) specimen(l look, middle place, half, radius float64) {
	c.stroke(l.line(), along(place{middle.x - half, middle.y}, place{middle.x + half, middle.y}))
	c.mark(l.shape, l.ink, middle, radius)
}

func (c *canvas) cross(p pen, at place, half float64) {
	c.stroke(p, along(place{at.x - half, at.y + half}, place{at.x + half, at.y - half})+along(place{at.x - half, at.y - half}, place{at.x + half, at.y + half}))
}
