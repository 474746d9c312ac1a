package mutants

// unbroken are the rules that no mutant breaks, and why there is none.
var unbroken = map[string]string{
	"service/member-frozen": "the memory service is one, and not an ensemble",
	"server/member-killed":  "the memory service is one, and not an ensemble",
}
