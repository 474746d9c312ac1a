package page

import (
	"html/template"

	"strconv"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A panel is one drawing with a heading of its own. Panels are small, so that a phone
// shows one with text that can be read, and a wide window several side by side.
type panel struct {
	title string
	note  string // what the y axis shows, or what is to be seen
	desc  string // for those who do not see it
	width float64
	tall  float64
	draw  func(c draw.Canvas)
}

// head is the height of a panel's heading.
const head = 40

// within draws the panel with its heading into a part of a canvas.
func (p panel) within(c draw.Canvas) {
	title := textStyle(titleSize, inkText, true, draw.XLeft, draw.YTop)
	c.FillText(title, vg.Point{X: c.Min.X, Y: c.Max.Y - 1}, fit(p.title, title, c.Size().X))
	note := textStyle(labelSize, inkMuted, false, draw.XLeft, draw.YTop)
	c.FillText(note, vg.Point{X: c.Min.X, Y: c.Max.Y - 17}, fit(p.note, note, c.Size().X))
	p.draw(draw.Crop(c, 0, 0, 0, -head))
}

// fit shortens text until it has no more than a width.
func fit(s string, style text.Style, width vg.Length) string {
	short := []rune(s)
	for len(short) > 0 && style.Width(s) > width {
		short = short[:len(short)-1]
		s = string(short) + "…"
	}
	return s
}

// svg is the panel as a picture in a page.
func (p panel) svg(name string) string {
	c := newCanvas(p.width, p.tall)
	p.within(draw.New(c))
	return c.svg(name, p.title, p.desc, "")
}

// A picture is panels that belong together, at the same scale.
type picture struct {
	name    string // of its file, without the ending
	title   string
	panels  []panel
	columns int // when it stands alone
	key     []panel

	Class   string // how the panels stand on the page: narrow, wide or large
	Caption string
}

// Drawings are the panels as pictures in a page.
func (p picture) Drawings() []template.HTML {
	var out []template.HTML
	for i, panel := range p.panels {
		// Everything in it that is not ours was escaped when it was drawn.
		out = append(out, template.HTML(panel.svg(p.name+"-"+strconv.Itoa(i+1))))
	}
	return out
}

// Key is what the marks mean, as pictures in a page.
func (p picture) Key() []template.HTML {
	var out []template.HTML
	for i, item := range p.key {
		c := newCanvas(item.width, item.tall)
		item.draw(draw.New(c))
		out = append(out, template.HTML(c.svg(p.name+"-key-"+strconv.Itoa(i+1), item.title, "What this mark means.", "")))
	}
	return out
}

// alone is the picture as a file of its own, light and dark.
func (p picture) alone() []byte {
	const gap, margin = 24, 10
	columns := min(p.columns, len(p.panels))
	rows := (len(p.panels) + columns - 1) / columns
	cell := p.panels[0]
	width := float64(columns)*cell.width + float64(columns-1)*gap + 2*margin
	height := float64(rows)*cell.tall + float64(rows-1)*gap + 2*margin
	if len(p.key) > 0 {
		height += p.key[0].tall + gap/2
	}
	c := newCanvas(width, height)
	all := draw.New(c)
	c.SetColor(inkPaper)
	c.Fill(all.Rectangle.Path())
	desc := ""
	for i, panel := range p.panels {
		x := margin + float64(i%columns)*(cell.width+gap)
		y := margin + float64(i/columns)*(cell.tall+gap)
		panel.within(region(all, x, y, panel.width, panel.tall))
		desc += panel.title + ": " + panel.desc + "\n"
	}
	x := float64(margin)
	for _, item := range p.key {
		item.draw(region(all, x, height-margin-item.tall, item.width, item.tall))
		x += item.width + 12
	}
	return []byte(c.svg(p.name, p.title, desc, chartStyle))
}

// region is the part of a canvas at x and y from its left upper corner.
func region(c draw.Canvas, x, y, width, height float64) draw.Canvas {
	left, top := c.Min.X+vg.Length(x), c.Max.Y-vg.Length(y)
	return draw.Canvas{Canvas: c.Canvas, Rectangle: vg.Rectangle{
		Min: vg.Point{X: left, Y: top - vg.Length(height)},
		Max: vg.Point{X: left + vg.Length(width), Y: top},
	}}
}
