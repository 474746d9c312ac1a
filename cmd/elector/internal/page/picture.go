package page

import (
	"html/template"
	"strconv"
)

// A panel is one drawing, with its own heading unless it is of a key. Panels are small, so that a phone shows one with
// readable text, and a wide window several side by side.
type panel struct {
	title string
	note  string // what the y axis shows, or what to look at; of a key ""
	desc  string // for those who do not see it
	width float64
	tall  float64
	draw  drawing
}

// A drawing draws into a part of a canvas.
type drawing func(c *canvas, b box)

// within draws the panel with its heading, if any.
func (p panel) within(c *canvas, b box) {
	if p.note != "" {
		c.text(titles, toTheRight, place{b.left, b.top + 14.3}, titles.fit(p.title, p.width))
		c.text(labels, toTheRight, place{b.left, b.top + 28.8}, labels.fit(p.note, p.width))
		b = b.inset(0, 40, 0, 0)
	}
	p.draw(c, b)
}

// A picture is panels that belong together, at the same scale.
type picture struct {
	name   string // of its file, without the extension
	title  string
	panels []panel
	key    []panel // the meaning of the marks

	Class   string // layout of the panels on the page: narrow, wide or large
	Caption string
}

// Drawings returns the panels as pictures in a page.
func (p picture) Drawings() []template.HTML { return inPage(p.name, p.panels) }

// Key returns the meaning of the marks, as pictures in a page.
func (p picture) Key() []template.HTML { return inPage(p.name+"-key", p.key) }

func inPage(name string, panels []panel) (all []template.HTML) {
	for i, p := range panels {
		c := &canvas{width: p.width, height: p.tall}
		p.within(c, area(0, 0, p.width, p.tall))
		// Everything in it that is not ours was escaped when it was drawn.
		all = append(all, template.HTML(c.svg(name+"-"+strconv.Itoa(i+1), p.title, p.desc, "")))
	}
	return all
}

// alone returns the picture as a file of its own, light and dark.
func (p picture) alone() []byte {
	const gap, margin = 24, 10
	columns := min(3, len(p.panels))
	rows := (len(p.panels) + columns - 1) / columns
	cell := p.panels[0]
	width := float64(columns)*cell.width + float64(columns-1)*gap + 2*margin
	height := float64(rows)*cell.tall + float64(rows-1)*gap + 2*margin
	if len(p.key) > 0 {
		height += p.key[0].tall + gap/2
	}
	c := &canvas{width: width, height: height}
	c.fill(inkPaper, area(0, 0, width, height).around())
	desc := ""
	for i, panel := range p.panels {
		x := margin + float64(i%columns)*(cell.width+gap)
		y := margin + float64(i/columns)*(cell.tall+gap)
		panel.within(c, area(x, y, panel.width, panel.tall))
		desc += panel.title + ": " + panel.desc + "\n"
	}
	x := float64(margin)
	for _, item := range p.key {
		item.within(c, area(x, height-margin-item.tall, item.width, item.tall))
		x += item.width + 12
	}
	return []byte(c.svg(p.name, p.title, desc, "<style>"+chartStyle+"</style>\n"))
}
