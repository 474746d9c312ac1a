package page

import (
	"encoding/xml"
	"fmt"
	"math"
	"strconv"
	"strings"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/font/liberation"
)

// An ink is a colour by its name in chart.css, so that one drawing serves light and dark.
type ink string

const (
	inkText  ink = "text"
	inkMuted ink = "muted"
	inkGrid  ink = "grid"
	inkGap   ink = "gap"
	inkAlert ink = "alert"
	inkPaper ink = "paper"
)

// A place is in pixels from the upper left corner of a canvas.
type place struct{ x, y float64 }

// A box is a part of a canvas.
type box struct{ left, top, right, bottom float64 }

// area returns the box of a size whose upper left corner is at x and y.
func area(x, y, width, height float64) box { return box{x, y, x + width, y + height} }

// inset returns the box without its margins.
func (b box) inset(left, top, right, bottom float64) box {
	return box{b.left + left, b.top + top, b.right - right, b.bottom - bottom}
}

// A pen draws lines.
type pen struct {
	ink   ink
	width float64
	dash  string // in SVG's form
}

// A canvas is a drawing in SVG. The colours are CSS classes, so that a style sheet can change them.
type canvas struct {
	width, height float64
	body          strings.Builder
	open          string // the path that is being written, without its data
	data          strings.Builder
}

// stroke draws along a path, and fill fills it.
func (c *canvas) stroke(p pen, path string) {
	attrs := fmt.Sprintf(`class="s %s" stroke-width="%s"`, p.ink, number(p.width))
	if p.dash != "" {
		attrs += fmt.Sprintf(` stroke-dasharray="%s"`, p.dash)
	}
	c.path(attrs, path)
}

func (c *canvas) fill(i ink, path string) { c.path(fmt.Sprintf(`class="f %s"`, i), path) }

// path writes a path. It appends a path that looks like the last one to that: a herd has hundreds of marks.
func (c *canvas) path(attrs, path string) {
	if attrs != c.open {
		c.flush()
		c.open = attrs
	}
	c.data.WriteString(path)
}

// along returns the path from place to place.
func along(at ...place) string {
	var all []string
	for _, p := range at {
		all = append(all, number(p.x)+" "+number(p.y))
	}
	return "M" + strings.Join(all, "L")
}

// around returns the path along the edge of a box.
func (b box) around() string {
	return along(place{b.left, b.bottom}, place{b.right, b.bottom}, place{b.right, b.top}, place{b.left, b.top}) + "Z"
}

// circle returns a path of two arcs, because SVG cannot draw a whole circle at once.
func circle(at place, radius float64) string {
	left, right, y, r := number(at.x-radius), number(at.x+radius), number(at.y), number(radius)
	return fmt.Sprintf("M%[2]s %[3]sA%[4]s %[4]s 0 0 0 %[1]s %[3]sA%[4]s %[4]s 0 0 0 %[2]s %[3]sZ", left, right, y, r)
}

// A letter is a text style.
type letter struct {
	size float64
	ink  ink
	bold bool
}

// in returns the same style in another colour.
func (l letter) in(i ink) letter { l.ink = i; return l }

var fonts = font.NewCache(liberation.Collection())

// width returns the width of a text in the font for which charts are laid out.
func (l letter) width(s string) float64 {
	f := font.Font{Typeface: "Liberation", Variant: "Sans"}
	if l.bold {
		f.Weight = xfont.WeightBold
	}
	face := fonts.Lookup(f, font.Length(l.size))
	return float64(face.Width(s))
}

// fit shortens text until it fits into a width.
func (l letter) fit(s string, width float64) string {
	short := []rune(s)
	for len(short) > 0 && l.width(s) > width {
		short = short[:len(short)-1]
		s = string(short) + "…"
	}
	return s
}

// Which part of a text is to the left of its place.
const (
	toTheRight = 0
	centred    = 0.5
	toTheLeft  = 1
)

// text writes on a base line, in exactly the width that the chart was laid out for, with any font of the
// reader's browser.
func (c *canvas) text(l letter, left float64, at place, s string) {
	if s == "" {
		return
	}
	c.flush()
	class := "t " + string(l.ink)
	if l.bold {
		class += " b"
	}
	width := l.width(s)
	fmt.Fprintf(&c.body, `<text class="%s" x="%s" y="%s" font-size="%s" textLength="%s" lengthAdjust="spacingAndGlyphs">%s</text>`+"\n",
		class, number(at.x-left*width), number(at.y), number(l.size), number(width), escape(s))
}

func (c *canvas) flush() {
	if c.data.Len() > 0 {
		fmt.Fprintf(&c.body, "<path %s d=\"%s\"/>\n", c.open, c.data.String())
	}
	c.open = ""
	c.data.Reset()
}

// svg returns the picture. name must be unique in the document; style is the element with the style sheet of a
// picture that stands alone, or "".
func (c *canvas) svg(name, title, desc, style string) string {
	c.flush()
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 %[1]s %[2]s" width="%[1]s" height="%[2]s" aria-labelledby="%[3]s-title %[3]s-desc">
<title id="%[3]s-title">%[4]s</title>
<desc id="%[3]s-desc">%[5]s</desc>
%[6]s%[7]s</svg>
`, number(c.width), number(c.height), name, escape(title), escape(desc), style, c.body.String())
}

// number formats v with at most one place after the point: a tenth of a pixel.
func number(v float64) string {
	return strconv.FormatFloat(math.Round(v*10)/10+0, 'f', -1, 64) // + 0 turns -0 into 0
}

func escape(s string) string {
	var b strings.Builder
	// Cannot fail: a Builder accepts everything, and characters that XML cannot express are replaced.
	_ = xml.EscapeText(&b, []byte(s))
	return b.String()
}
