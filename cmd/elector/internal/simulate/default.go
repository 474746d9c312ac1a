package simulate

import (
	"time"

	"github.com/elector-go/elector/cmd/elector/internal/report"
)

// Default is ZooKeeper's server with all candidates on the same small machine, so that a
// server's time and its clients' cannot be told apart: Notice is most of all what the
// machine takes for one candidate to be told and to answer. See Source for what it was
// fitted to; it was printed by
//
//	go run ./internal/simulate/calibrate report.json
var Default = report.Model{
	RoundTrip: 11870 * time.Nanosecond,
	Write:     558670 * time.Nanosecond,
	Read:      20 * time.Nanosecond,
	Notice:    70330 * time.Nanosecond,
	KiB:       4440 * time.Nanosecond,
	Source: "RoundTrip, Write, Notice, Read, KiB fitted to the leaderless p50 after a resignation of 27 runs on ZooKeeper 3.8.0: " +
		"fair, unfair, kafka, parentwatch, 3 to 2000 candidates; off by 12 % in the median, by 28 % at most; " +
		"server and candidates on one machine of 2 cores, AMD EPYC, with nothing else to do",
}
