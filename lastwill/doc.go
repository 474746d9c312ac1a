// Package lastwill makes a crash cost milliseconds: when the process of a session dies, by kill -9,
// the OOM killer, a panic or os.Exit, a companion beside it ends the session at once. Without one
// everybody waits until the session times out.
//
// One line at the top of main switches it on:
//
//	func main() {
//		b, err := lastwill.Start(func() (backend.Backend, error) {
//			return dial.Open(context.Background(), os.Getenv("ELECTOR_URL"))
//		}, lastwill.Options{})
//		if err != nil {
//			log.Fatal(err)
//		}
//		defer b.Close()
//		// b is a backend.Backend: go on as ever.
//	}
//
// The companion is this program, executed a second time with the same arguments and environment, in the
// same directory.
// There Start does not return. So everything that main does BEFORE Start is done twice, and must bear
// that: read flags, set up a logger. Everything that must not be done twice comes AFTER it:
// listening, opening a database, taking a lock, writing a file, starting goroutines and processes.
// The same goes for what packages do as they are initialized. A program whose companion does not
// reach Start within ten seconds goes on without one, and logs that. A companion opens no session: a
// program that campaigns before Start fails there.
//
// The companion of a test binary runs TestMain and no test: a program under test that calls Start
// goes on without one, unless TestMain does.
//
// # What it does, and what it does not
//
// The companion acts on one thing only: that the kernel says that the process is dead, with all its
// threads (a pidfd). A closed connection, a stopped process (SIGSTOP), a long pause and a process id
// that is used again mean nothing to it. It ends sessions and does nothing more. Once, when there is
// a session, it tries out whether it could ([backend.Rehearse]). While nothing happens it has no
// connection to the service and does not run.
//
// A list of processes calls it "lastwill". Whatever kills all processes of a program by its name kills
// it, too.
//
// It costs speed and nothing else if the companion dies, or is frozen: the process notices the first
// at once, and the second as soon as it has more to tell than the kernel keeps for it. It starts
// another and tells it everything. Without a companion the session times out, as ever.
//
// What it does not cover: the death of the machine, and of everything in a container together.
// Process 1 of a container takes all others along, so Start refuses there: use an agent of the host
// (Options.Agent), or have the containers of a pod share one process namespace. It does not hold
// back what the dead process had sent before: that may arrive some milliseconds after its successor
// leads. Fencing is for that.
//
// # An agent of the host
//
// With [Options.Agent] there is no second process: [Serve] does the same for all processes of a host
// that connect to its socket. It runs with the rights to end sessions at the service, in the process
// namespace of the host.
//
// # Processes that act for others
//
// The death of a process proves nothing about its children. A process whose children act in its name
// as long as it leads takes a [Hold] for each: the companion then waits for the child's word, too.
//
// # Systems
//
// It takes Linux 5.3 or later, with /proc. Elsewhere the error of Start and Serve is
// errors.ErrUnsupported, unless it is [Options.Optional].
package lastwill
