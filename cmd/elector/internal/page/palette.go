package page

import (
	"slices"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/elector-go/elector/cmd/elector/internal/report"
	"github.com/elector-go/elector/strategy/catalog"
)

// A look is how a strategy is drawn, everywhere alike: by colour, by the shape of its
// marks and by its dashes, so that none of the three is needed to tell it.
type look struct {
	ink   ink
	dash  []vg.Length
	shape draw.GlyphDrawer
}

// looks are those of the strategies that come with the library. The colours, in
// chart.css, are Okabe and Ito's, darkened or lightened until text can be read in them.
var looks = map[string]look{
	"fair":        {"fair", nil, disc{}},
	"unfair":      {"unfair", dash(6, 3), triangle{}},
	"kafka":       {"kafka", dash(2, 3), square{}},
	"parentwatch": {"parentwatch", dash(8, 3, 2, 3), diamond{}},
	"ranked":      {"ranked", dash(10, 2, 2, 2, 2, 2), star{}},
}

// others are for strategies that are not known here, in the order of their names.
var others = []look{
	{"other1", dash(1, 2), draw.PlusGlyph{}},
	{"other2", dash(10, 3), draw.CrossGlyph{}},
	{"other3", dash(4, 2, 1, 2, 1, 2), draw.RingGlyph{}},
}

func dash(lengths ...vg.Length) []vg.Length { return lengths }

// palette knows the look of every strategy in a report, and their order.
type palette struct {
	order []string
	looks map[string]look
}

func newPalette(r report.Report) palette {
	p := palette{looks: make(map[string]look)}
	for _, run := range r.Runs {
		if !slices.Contains(p.order, run.Strategy) {
			p.order = append(p.order, run.Strategy)
		}
	}
	unknown := slices.DeleteFunc(slices.Clone(p.order), func(name string) bool { _, ok := looks[name]; return ok })
	slices.Sort(unknown)
	for _, name := range p.order {
		if l, ok := looks[name]; ok {
			p.looks[name] = l
		} else {
			p.looks[name] = others[slices.Index(unknown, name)%len(others)]
		}
	}
	// The known ones first and always in the same order.
	known := catalog.Names()
	rank := func(name string) int {
		if i := slices.Index(known, name); i >= 0 {
			return i
		}
		return len(known) + slices.Index(unknown, name)
	}
	slices.SortFunc(p.order, func(a, b string) int { return rank(a) - rank(b) })
	return p
}

// The marks of the strategies, of about the same size to the eye.
type (
	disc     struct{}
	square   struct{}
	triangle struct{}
	diamond  struct{}
	star     struct{}
)

func (disc) DrawGlyph(c *draw.Canvas, s draw.GlyphStyle, at vg.Point) {
	var p vg.Path
	p.Move(vg.Point{X: at.X + s.Radius, Y: at.Y})
	p.Arc(at, s.Radius, 0, 2*3.14159265)
	p.Close()
	c.Fill(p)
}

func (square) DrawGlyph(c *draw.Canvas, s draw.GlyphStyle, at vg.Point) {
	polygon(c, at, s.Radius*0.88, [][2]float64{{-1, -1}, {1, -1}, {1, 1}, {-1, 1}})
}

func (triangle) DrawGlyph(c *draw.Canvas, s draw.GlyphStyle, at vg.Point) {
	polygon(c, at, s.Radius*1.2, [][2]float64{{-0.95, -0.7}, {0.95, -0.7}, {0, 1}})
}

func (diamond) DrawGlyph(c *draw.Canvas, s draw.GlyphStyle, at vg.Point) {
	polygon(c, at, s.Radius*1.25, [][2]float64{{-1, 0}, {0, -1}, {1, 0}, {0, 1}})
}

func (star) DrawGlyph(c *draw.Canvas, s draw.GlyphStyle, at vg.Point) {
	polygon(c, at, s.Radius*1.35, [][2]float64{
		{0, 1}, {-0.26, 0.36}, {-0.95, 0.31}, {-0.43, -0.14}, {-0.59, -0.81}, {0, -0.45}, {0.59, -0.81}, {0.43, -0.14}, {0.95, 0.31}, {0.26, 0.36},
	})
}

func polygon(c *draw.Canvas, at vg.Point, size vg.Length, corners [][2]float64) {
	var p vg.Path
	for i, corner := range corners {
		pt := vg.Point{X: at.X + size*vg.Length(corner[0]), Y: at.Y + size*vg.Length(corner[1])}
		if i == 0 {
			p.Move(pt)
		} else {
			p.Line(pt)
		}
	}
	p.Close()
	c.Fill(p)
}
