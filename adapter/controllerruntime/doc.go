// Package electorcontrollerruntime lets an election of package elector decide which replica of an operator
// leads. It is for operators made with sigs.k8s.io/controller-runtime.
//
//	e, err := elector.New(elector.Config{…})
//	mgr, err := electorcontrollerruntime.NewManager(ctrl.GetConfigOrDie(), e, ctrl.Options{…}) // instead of ctrl.NewManager
//	… // controllers and webhooks, as before
//	if err := mgr.Start(ctrl.SetupSignalHandler()); err != nil {
//		setupLog.Error(err, "problem running manager")
//		os.Exit(1) // at once
//	}
//	err = e.Close(ctx)
//
// Each replica serves webhooks, metrics and probes, and fills its caches; then it stands in the election. The
// runnables that need leader election, such as controllers, run in the leader.
//
// # What it guarantees
//
// When the term ends, the ctx of each runnable and reconciler ends with it, as Term.Context does: before the
// service can give the seat to another replica. At the same time Start returns an error with the cause. It waits
// for nothing then: a manager leads once, and the process must exit, as after controller-runtime's "leader
// election lost". Kubernetes starts it again.
//
// A leader releases its seat as soon as all runnables have returned: after the ctx of Start has ended, a
// runnable has failed, or somebody has asked the leader to go (Start then returns elector.ErrAsked). If
// runnables do not return within GracefulShutdownTimeout, Start returns an error and keeps the seat, which then
// ends with the session. So do not close the Elector after an error. A replica that only stands withdraws as
// soon as the ctx of Start ends.
//
// # What it does not guarantee
//
// A runnable that ignores its ctx works until the process has exited. From the end of the term on, the service
// still keeps the seat for the window's margin, less what the clocks drift apart: an eighth of the session
// timeout on ZooKeeper and etcd, a tenth on memory, a twentieth on Consul. The process should exit within it.
// There is no such time when an operator deletes the leader's entry.
//
// A process may be paused, for any time, between a check and the write that follows. When it continues after
// the end of its window, the ctxs end as soon as the runtime has run its timers, but a request that is on its
// way may still be done. The API server knows no token. It refuses a late write to an object that the successor
// has changed if the write names the resourceVersion: Update does, and Patch does with
// client.MergeFromWithOptimisticLock. For what is elsewhere, a reconciler calls Term of the Elector, which
// returns nil or the term that the manager leads by, and uses its Valid, Commit or Token.
//
// # client-go's election is only a gate
//
// It still runs in the manager, and asks a lock of this package who the holder is. The lock answers when this
// process is elected, and says so only while the term's window holds, by the clock (Term.Valid). client-go
// (v0.37) then counts a lease from the reply, and a pause may delay that; here the lease decides nothing. It
// lasts for decades, and the term's end reaches the runnables without it, by Options.BaseContext. With a lease
// of a second, client-go would end a manager up to RetryPeriod + RenewDeadline after its term; it would not end
// the leader's runnables while the manager stops and waits for others; and a pause of RenewDeadline at the wrong
// moment would end a manager that leads, without waiting for its work.
//
// # The other way: a manager inside Run
//
// An operator without webhooks needs no adapter:
//
//	mgr, err := ctrl.NewManager(cfg, ctrl.Options{LeaderElection: false, GracefulShutdownTimeout: new(time.Duration(-1)), …})
//	…
//	err = elector.Run(ctx, e, func(ctx context.Context, t *elector.Term) error {
//		return errors.Join(mgr.Start(ctx), elector.ErrStop) // a manager starts once
//	})
//
// With a timeout of -1, Start returns when all runnables have returned, and only then may Run release the seat.
// But one that ignores its ctx keeps the process from exiting, also when the term is lost. The manager does
// everything in the term: other replicas answer neither webhooks nor probes, and a new leader begins with empty
// caches. After Run the process exits here, too.
//
// # Moving from controller-runtime's own election
//
// It does not see elector's candidates: a rolling update from one to the other would have two leaders. Stop all
// old replicas before you start new ones, as a Deployment with the strategy Recreate does, also to roll back.
//
// Without such a pause it takes two releases. The first needs both elections:
//
//	mgr, err := ctrl.NewManager(cfg, ctrl.Options{LeaderElection: true, GracefulShutdownTimeout: new(time.Duration(-1)), …})
//	…
//	err = elector.Run(ctx, e, func(ctx context.Context, _ *elector.Term) error {
//		if err := mgr.Start(ctx); err != nil {
//			setupLog.Error(err, "problem running manager")
//			os.Exit(1) // at once: runnables may not have returned, so the seat is not released
//		}
//		return elector.ErrStop
//	})
//
// Its replicas share the old election with old replicas, and elector's with those of the second release, which calls
// NewManager. Begin the second rollout when the first is complete. In the first release serve probes outside of the
// manager, with package health, or no rollout ends: in a replica without the seat the manager has not started. A handover
// takes until the old Lease has expired: leave LeaderElectionReleaseOnCancel false.
//
// # A log line that means nothing
//
// When a leader stops, controller-runtime may log the error "leader election lost" with the message "error received after
// stop sequence was engaged". Start has stopped as it should, and returns nil.
package electorcontrollerruntime
