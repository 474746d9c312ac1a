package cli

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/elector-go/elector/cmd/elector/internal/report"
)

// progress shows the progress of a comparison: as a bar on a terminal, elsewhere as a line for each run.
type progress struct {
	to  io.Writer
	bar *progressbar.ProgressBar // nil elsewhere
}

func newProgress(to io.Writer) *progress {
	p := &progress{to: to}
	if f, ok := to.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.bar = progressbar.NewOptions(1,
			progressbar.OptionSetWriter(to),
			progressbar.OptionSetWidth(20),
			progressbar.OptionShowCount(),
			progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionClearOnFinish())
	}
	return p
}

func (p *progress) step(done, of int, doing string) {
	if p.bar == nil {
		return
	}
	if p.bar.GetMax() != of {
		p.bar.ChangeMax(of)
	}
	p.bar.Describe(doing)
	_ = p.bar.Set(done) // a bar that cannot be shown is no reason to stop
}

func (p *progress) ran(r report.Run) {
	if p.bar != nil {
		return
	}
	how := "done"
	switch {
	case r.Empty() && r.Truncated != report.Interrupted:
		how = "failed"
	case r.Truncated != "":
		how = "ended early"
	}
	fmt.Fprintf(p.to, "%s, %s, %d candidates: %s\n", r.Service, r.Strategy, r.N, how)
}

// end clears the line for what is printed next.
func (p *progress) end() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}
