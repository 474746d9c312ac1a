package harness

import "github.com/elector-go/elector/conformance/kit"

// can returns what the suites can do to a service, and to a process of it. There is one lookup for both,
// so that a field forgotten here is reported as unknown, not as missing in the service.
func can(s *kit.Service, c *kit.Client) map[string]bool {
	return map[string]bool{
		"Delete":       s.Delete != nil,
		"Put":          s.Put != nil,
		"UseUp":        s.UseUp != nil,
		"Stop":         s.Stop != nil && s.Start != nil,
		"StopMember":   s.StopMember != nil && s.StartMember != nil && s.ClientAt != nil,
		"PauseMember":  s.PauseMember != nil && s.ResumeMember != nil && s.ClientAt != nil,
		"CutOffMember": s.CutOffMember != nil && s.MendMember != nil && s.ClientAt != nil,
		"Watches":      s.Watches != nil,
		"Stored":       s.Stored != nil,
		"MaxOps":       s.MaxOps > 0,
		"MaxBytes":     s.MaxBytes > 0,
		"Suspend":      c.Suspend != nil && c.Resume != nil,
		"Expire":       c.Expire != nil,
		"Kill":         c.Kill != nil,
		"LoseReply":    c.LoseReply != nil,
		"CutReply":     c.CutReply != nil && c.Resume != nil,
		"LoseRequest":  c.LoseRequest != nil,
		"DelayRequest": c.DelayRequest != nil,
		"Throttle":     c.Throttle != nil,
		"Deny":         c.Deny != nil,
		"SlowReplies":  c.SlowReplies != nil,
		"HoldRequests": c.HoldRequests != nil,
		"HoldWakeups":  c.HoldWakeups != nil,
	}
}
