package explore

// ReplayFailure is Replay for what is expected to fail.
var ReplayFailure = replay
