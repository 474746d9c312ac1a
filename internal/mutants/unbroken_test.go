package mutants

// unbroken are the rules that no mutant breaks, with the reasons.
var unbroken = map[string]string{
	"ask/lost-reply":         "the memory service reports an entry as it was created, even if it has changed since; on ZooKeeper the rule failed without the look at the claim",
	"errors/unanswered":      "the memory service's requests take no time; see session/slow-replies",
	"ask/nobody":             "Ask is a function of package elector, which no mutant replaces",
	"service/member-cut-off": "the memory service is one server, not an ensemble; docs/internals/proof.md has what was broken by hand on real ones",
	"service/member-killed":  "the memory service is one server, not an ensemble",
	"service/no-quorum":      "the memory service is one server, not an ensemble",
	"service/member-frozen":  "the memory service is one server, not an ensemble",
	"server/member-killed":   "the memory service is one server, not an ensemble",
	"session/close-cut":      "the memory service's Close does not wait for a link",
	"session/slow-replies":   "the memory service's heartbeats take no time; conformance.TestLateMessagesAreFound has a wrong backend on etcd",
	"session/late-requests":  "the memory service's requests take no time; see session/slow-replies",
}
