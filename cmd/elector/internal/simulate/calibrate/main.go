// Command calibrate fits the model of the simulation to measured runs, and prints it as
// simulate.Default is written, with what it makes of each run:
//
//	elector compare --backend zk://host:2181 --json >report.json
//	go run ./internal/simulate/calibrate report.json
//
// It reads one or more reports in JSON; with several, their runs count alike. Simulated
// runs in them are left out.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/elector-go/elector/cmd/elector/internal/report"
	"github.com/elector-go/elector/cmd/elector/internal/simulate"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "calibrate: %v\n", err)
		os.Exit(1)
	}
}

func run(files []string, out io.Writer) error {
	if len(files) == 0 {
		return errors.New("give the files of one or more reports in JSON, as elector compare makes them")
	}
	var measured []report.Run
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		var r report.Report
		if err := json.Unmarshal(text, &r); err != nil {
			return fmt.Errorf("%s is no report: %w", name, err)
		}
		if r.Schema != report.Schema {
			return fmt.Errorf("%s has schema %d, not %d: make it anew", name, r.Schema, report.Schema)
		}
		for _, run := range r.Runs {
			if run.Service != simulate.Service {
				measured = append(measured, run)
			}
		}
	}
	m, calibration, err := simulate.Fit(measured)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "var Default = report.Model{\n")
	for _, f := range []struct {
		name  string
		value time.Duration
	}{{"RoundTrip:", m.RoundTrip}, {"Write:", m.Write}, {"Read:", m.Read}, {"Notice:", m.Notice}, {"KiB:", m.KiB}} {
		fmt.Fprintf(out, "\t%-10s %d * time.Nanosecond,\n", f.name, f.value.Nanoseconds())
	}
	fmt.Fprintf(out, "\tSource:    %q,\n}\n\n", m.Source)
	for _, c := range calibration {
		fmt.Fprintf(out, "%-12s %7d  measured %-12v simulated %-12v %+.0f %%\n", c.Strategy, c.N, c.Measured, c.Simulated, 100*c.Error)
	}
	return nil
}
