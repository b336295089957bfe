package partition

// panics lets the others have their turn when somebody's code panics.
type panics struct {
	first any
}

// catch calls f. If it panics, that is kept for pass.
func (p *panics) catch(f func()) {
	defer func() {
		if v := recover(); v != nil && p.first == nil {
			p.first = v
		}
	}()
	f()
}

// pass panics with the first panic that was caught, if there was one.
func (p *panics) pass() {
	if p.first != nil {
		panic(p.first)
	}
}
