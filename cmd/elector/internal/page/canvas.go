package page

import (
	"encoding/xml"
	"fmt"
	"image"
	"image/color"
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
)

// An ink is a colour by the name that style.css gives it, so that one drawing serves
// light and dark. Plots hand it through to the canvas as they would any colour.
type ink string

// RGBA is what whoever does not know inks sees: black.
func (ink) RGBA() (r, g, b, a uint32) { return color.Black.RGBA() }

const (
	inkText  ink = "text"
	inkMuted ink = "muted"
	inkGrid  ink = "grid"
	inkGap   ink = "gap"
	inkAlert ink = "alert"
	inkPaper ink = "paper"
)

// canvas is a vg.Canvas that writes SVG whose colours are CSS classes. gonum's own SVG
// canvas writes them as numbers, which no style sheet can change.
type canvas struct {
	width, height float64
	body          strings.Builder
	open          string // the path that is being written, without its data
	data          strings.Builder
	state         state
	stack         []state
}

// state is what Push saves.
type state struct {
	class ink
	width vg.Length
	dash  []vg.Length
	to    matrix
}

// matrix takes x and y to a*x+c*y+e and b*x+d*y+f.
type matrix struct{ a, b, c, d, e, f float64 }

func (m matrix) times(n matrix) matrix {
	return matrix{
		m.a*n.a + m.c*n.b, m.b*n.a + m.d*n.b,
		m.a*n.c + m.c*n.d, m.b*n.c + m.d*n.d,
		m.a*n.e + m.c*n.f + m.e, m.b*n.e + m.d*n.f + m.f,
	}
}

func (m matrix) point(p vg.Point) (x, y float64) {
	px, py := float64(p.X), float64(p.Y)
	return m.a*px + m.c*py + m.e, m.b*px + m.d*py + m.f
}

func newCanvas(width, height float64) *canvas {
	c := &canvas{width: width, height: height}
	c.state.to = matrix{a: 1, d: -1, f: height} // SVG's y grows downwards
	vg.Initialize(c)
	return c
}

func (c *canvas) Size() (x, y vg.Length) { return vg.Length(c.width), vg.Length(c.height) }

func (c *canvas) SetLineWidth(w vg.Length)                  { c.state.width = w }
func (c *canvas) SetLineDash(dash []vg.Length, _ vg.Length) { c.state.dash = dash }

func (c *canvas) SetColor(col color.Color) {
	name, ok := col.(ink)
	if !ok {
		name = inkText
	}
	c.state.class = name
}

func (c *canvas) Rotate(rad float64) {
	sin, cos := math.Sincos(rad)
	c.state.to = c.state.to.times(matrix{a: cos, b: sin, c: -sin, d: cos})
}

func (c *canvas) Translate(p vg.Point) {
	c.state.to = c.state.to.times(matrix{a: 1, d: 1, e: float64(p.X), f: float64(p.Y)})
}

func (c *canvas) Scale(x, y float64) { c.state.to = c.state.to.times(matrix{a: x, d: y}) }

func (c *canvas) Push() { c.stack = append(c.stack, c.state) }

func (c *canvas) Pop() {
	c.state = c.stack[len(c.stack)-1]
	c.stack = c.stack[:len(c.stack)-1]
}

func (c *canvas) Stroke(p vg.Path) {
	if c.state.width <= 0 {
		return
	}
	attrs := fmt.Sprintf(`class="s %s" stroke-width="%s"`, c.state.class, number(float64(c.state.width)))
	if len(c.state.dash) > 0 {
		var dash []string
		for _, d := range c.state.dash {
			dash = append(dash, number(float64(d)))
		}
		attrs += fmt.Sprintf(` stroke-dasharray="%s"`, strings.Join(dash, " "))
	}
	c.path(attrs, p)
}

func (c *canvas) Fill(p vg.Path) { c.path(fmt.Sprintf(`class="f %s"`, c.state.class), p) }

// path writes a path. One that looks like the path before it becomes part of that: a herd
// has hundreds of marks.
func (c *canvas) path(attrs string, p vg.Path) {
	if attrs != c.open {
		c.flush()
		c.open = attrs
	}
	for _, part := range p {
		x, y := c.state.to.point(part.Pos)
		switch part.Type {
		case vg.MoveComp:
			fmt.Fprintf(&c.data, "M%s %s", number(x), number(y))
		case vg.LineComp:
			fmt.Fprintf(&c.data, "L%s %s", number(x), number(y))
		case vg.ArcComp:
			c.arc(part)
		case vg.CurveComp:
			c.data.WriteString([]string{1: "Q", 2: "C"}[len(part.Control)])
			for _, at := range part.Control {
				cx, cy := c.state.to.point(at)
				fmt.Fprintf(&c.data, "%s %s ", number(cx), number(cy))
			}
			fmt.Fprintf(&c.data, "%s %s", number(x), number(y))
		case vg.CloseComp:
			c.data.WriteString("Z")
		}
	}
}

// arc writes a piece of a circle as two, because SVG cannot draw a whole one at once.
func (c *canvas) arc(part vg.PathComp) {
	r := float64(part.Radius)
	scaled := r * math.Hypot(c.state.to.a, c.state.to.b)
	at := func(angle float64) string {
		sin, cos := math.Sincos(angle)
		x, y := c.state.to.point(vg.Point{X: part.Pos.X + vg.Length(r*cos), Y: part.Pos.Y + vg.Length(r*sin)})
		return number(x) + " " + number(y)
	}
	sweep := 0 // counter-clockwise as seen, for y is upside down
	if part.Angle < 0 {
		sweep = 1
	}
	first := "L"
	if c.data.Len() == 0 || strings.HasSuffix(c.data.String(), "Z") {
		first = "M"
	}
	fmt.Fprintf(&c.data, "%s%s", first, at(part.Start))
	for _, end := range []float64{part.Start + part.Angle/2, part.Start + part.Angle} {
		fmt.Fprintf(&c.data, "A%s %s 0 0 %d %s", number(scaled), number(scaled), sweep, at(end))
	}
}

// FillString writes text of exactly the width that the plot was laid out for, whatever
// font the reader's browser has.
func (c *canvas) FillString(f font.Face, p vg.Point, s string) {
	if f.Font.Size <= 0 || s == "" {
		return
	}
	c.flush()
	x, y := c.state.to.point(p)
	class := "t " + string(c.state.class)
	if f.Font.Weight > 0 {
		class += " b"
	}
	fmt.Fprintf(&c.body, `<text class="%s" x="%s" y="%s" font-size="%s" textLength="%s" lengthAdjust="spacingAndGlyphs"`,
		class, number(x), number(y), number(float64(f.Font.Size)), number(float64(f.Width(s))))
	if turn := math.Atan2(c.state.to.b, c.state.to.a) * 180 / math.Pi; math.Abs(turn) > 0.01 {
		fmt.Fprintf(&c.body, ` transform="rotate(%s %s %s)"`, number(turn), number(x), number(y))
	}
	c.body.WriteString(">")
	c.body.WriteString(escape(s))
	c.body.WriteString("</text>\n")
}

// DrawImage draws nothing: no chart here has a picture in it.
func (c *canvas) DrawImage(vg.Rectangle, image.Image) {}

func (c *canvas) flush() {
	if c.data.Len() > 0 {
		fmt.Fprintf(&c.body, "<path %s d=\"%s\"/>\n", c.open, c.data.String())
	}
	c.open = ""
	c.data.Reset()
}

// svg is the picture. name is unique in the document that it becomes part of; style is a
// style sheet for a picture that stands alone, or "".
func (c *canvas) svg(name, title, desc, style string) string {
	c.flush()
	if style != "" {
		style = "<style>" + style + "</style>\n"
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 %[1]s %[2]s" width="%[1]s" height="%[2]s" aria-labelledby="%[3]s-title %[3]s-desc">
<title id="%[3]s-title">%[4]s</title>
<desc id="%[3]s-desc">%[5]s</desc>
%[6]s%[7]s</svg>
`, number(c.width), number(c.height), name, escape(title), escape(desc), style, c.body.String())
}

// number is v with at most one place after the point: a tenth of a pixel.
func number(v float64) string {
	v = math.Round(v*10) / 10
	if v == 0 {
		return "0" // and never -0
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

func escape(s string) string {
	var b strings.Builder
	// Cannot fail: a Builder takes everything, and what XML has no way to say is replaced.
	_ = xml.EscapeText(&b, []byte(s))
	return b.String()
}
