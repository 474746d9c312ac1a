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

// An ink is a colour by the name that chart.css gives it, so that one drawing serves
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
	class         ink
	line          vg.Length // its width
	dash          []vg.Length
}

func newCanvas(width, height float64) *canvas {
	c := &canvas{width: width, height: height}
	vg.Initialize(c)
	return c
}

func (c *canvas) Size() (x, y vg.Length) { return vg.Length(c.width), vg.Length(c.height) }

func (c *canvas) SetLineWidth(w vg.Length)                  { c.line = w }
func (c *canvas) SetLineDash(dash []vg.Length, _ vg.Length) { c.dash = dash }

func (c *canvas) SetColor(col color.Color) {
	name, ok := col.(ink)
	if !ok {
		name = inkText
	}
	c.class = name
}

// unused is of what no chart here does: to turn, move or scale what it draws, to draw a
// curve other than a circle, or to show an image.
const unused = "page: the canvas has no turning, moving, scaling, curves and images"

func (c *canvas) Push()                               { panic(unused) }
func (c *canvas) Pop()                                { panic(unused) }
func (c *canvas) Rotate(float64)                      { panic(unused) }
func (c *canvas) Translate(vg.Point)                  { panic(unused) }
func (c *canvas) Scale(x, y float64)                  { panic(unused) }
func (c *canvas) DrawImage(vg.Rectangle, image.Image) { panic(unused) }

// at is a place as SVG has it, whose y grows downwards.
func (c *canvas) at(p vg.Point) (x, y string) {
	return number(float64(p.X)), number(c.height - float64(p.Y))
}

func (c *canvas) Stroke(p vg.Path) {
	if c.line <= 0 {
		return
	}
	attrs := fmt.Sprintf(`class="s %s" stroke-width="%s"`, c.class, number(float64(c.line)))
	if len(c.dash) > 0 {
		var dash []string
		for _, d := range c.dash {
			dash = append(dash, number(float64(d)))
		}
		attrs += fmt.Sprintf(` stroke-dasharray="%s"`, strings.Join(dash, " "))
	}
	c.path(attrs, p)
}

func (c *canvas) Fill(p vg.Path) { c.path(fmt.Sprintf(`class="f %s"`, c.class), p) }

// path writes a path. One that looks like the path before it becomes part of that: a herd
// has hundreds of marks.
func (c *canvas) path(attrs string, p vg.Path) {
	if attrs != c.open {
		c.flush()
		c.open = attrs
	}
	for _, part := range p {
		x, y := c.at(part.Pos)
		switch part.Type {
		case vg.MoveComp:
			fmt.Fprintf(&c.data, "M%s %s", x, y)
		case vg.LineComp:
			fmt.Fprintf(&c.data, "L%s %s", x, y)
		case vg.ArcComp:
			c.arc(part)
		case vg.CurveComp:
			panic(unused)
		case vg.CloseComp:
			c.data.WriteString("Z")
		}
	}
}

// arc writes a piece of a circle as two, because SVG cannot draw a whole one at once.
func (c *canvas) arc(part vg.PathComp) {
	r := float64(part.Radius)
	at := func(angle float64) string {
		sin, cos := math.Sincos(angle)
		x, y := c.at(vg.Point{X: part.Pos.X + vg.Length(r*cos), Y: part.Pos.Y + vg.Length(r*sin)})
		return x + " " + y
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
		fmt.Fprintf(&c.data, "A%s %s 0 0 %d %s", number(r), number(r), sweep, at(end))
	}
}

// FillString writes text of exactly the width that the plot was laid out for, whatever
// font the reader's browser has.
func (c *canvas) FillString(f font.Face, p vg.Point, s string) {
	if f.Font.Size <= 0 || s == "" {
		return
	}
	c.flush()
	x, y := c.at(p)
	class := "t " + string(c.class)
	if f.Font.Weight > 0 {
		class += " b"
	}
	fmt.Fprintf(&c.body, `<text class="%s" x="%s" y="%s" font-size="%s" textLength="%s" lengthAdjust="spacingAndGlyphs">%s</text>`+"\n",
		class, x, y, number(float64(f.Font.Size)), number(float64(f.Width(s))), escape(s))
}

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
