// Package lastwill makes a crash cost milliseconds: when the process of a session dies, by kill -9, the
// OOM killer, a panic or os.Exit, a companion process ends the session at once. Without a companion,
// everybody waits until the session times out.
//
// One line at the top of main enables it:
//
//	func main() {
//		b, err := lastwill.Start(func() (backend.Backend, error) {
//			return dial.Open(context.Background(), os.Getenv("ELECTOR_URL"))
//		}, lastwill.Options{})
//		if err != nil {
//			log.Fatal(err)
//		}
//		defer b.Close()
//		// b is a backend.Backend: continue as usual.
//	}
//
// The companion is this program, executed a second time with the same arguments and environment, in the
// same directory. There Start does not return. So everything that main does BEFORE Start is done twice,
// and must be safe to do twice: read flags, set up a logger. Everything that must be done only once comes
// AFTER Start: listening, opening a database, taking a lock, writing a file, starting goroutines and
// processes. The same applies to the initialization of packages. If the companion does not reach Start
// within ten seconds, the program continues without one, and logs that. A companion opens no session: a
// program that campaigns before Start fails there.
//
// The companion of a test binary runs TestMain and no test: a program under test that calls Start
// continues without a companion, unless TestMain calls Start.
//
// # What it does, and what it does not do
//
// The companion acts only when the kernel reports, through a pidfd, that the process is dead with all its
// threads. A closed connection, a stopped process (SIGSTOP), a long pause and a reused process id have no
// effect. It only ends sessions. When there is a session, it tests once whether it could end one
// ([backend.Rehearse]). While nothing happens, it has no connection to the service and does not run.
//
// A list of processes shows it as "lastwill". A command that kills all processes of a program by name
// kills it, too.
//
// If the companion dies or is frozen, this costs only speed: the process notices a death at once, and a
// freeze as soon as it has more to send than the kernel buffers. It then starts another companion and
// sends it everything. Without a companion, the session times out as usual.
//
// It does not cover the death of the machine, or of everything in a container together. When process 1 of
// a container dies, all others die, so Start refuses there: use an agent of the host (Options.Agent), or
// let the containers of a pod share one process namespace. It does not hold back what the dead process had
// already sent: that may arrive some milliseconds after its successor leads. Use fencing against that.
//
// # An agent of the host
//
// With [Options.Agent] there is no second process: [Serve] does the same for all processes of a host that
// connect to its socket. It runs with the rights to end sessions at the service, in the process namespace
// of the host.
//
// # Processes with children
//
// The death of a process proves nothing about its children. A process whose children act in its name while
// it leads takes a [Hold] for each: then the companion also waits for the child's word.
//
// # Systems
//
// It needs Linux 5.3 or later, with /proc. On other systems, Start and Serve return errors.ErrUnsupported,
// except Start with [Options.Optional].
package lastwill
