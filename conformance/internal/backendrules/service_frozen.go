package backendrules

// serviceMemberFrozen freezes each member in turn: the one that leads is among them. One
// session began with that member, and may go on with others; one stays with another, which
// may have passed on what it waits for.
func serviceMemberFrozen(r *run) {
	for member := range r.Service.Members {
		x := r.trio(member)
		e, waiting := x.waitsOf(x.first)
		f, alsoWaiting := x.waitsOf(x.second)
		x.free()
		x.second.beats()
		x.without("freeze a member", r.Service.PauseMember, r.Service.ResumeMember, func() {
			x.delete(e)
			x.delete(f)
			hears(x.second, alsoWaiting)
			hears(x.first, waiting)
		})
	}
}
