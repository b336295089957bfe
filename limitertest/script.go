package limitertest

// A play has this many steps, and half as many after a Close.
const steps = 60

// run makes random calls, until the model cannot predict the next.
func (p *play) run() {
	p.compare()
	if !p.unlimited() && p.random.IntN(2) > 0 { // most rules are about a limiter with little left
		p.try(p.Limit - p.random.IntN(min(3, p.Limit)))
	}
	p.steps(steps)
	if !p.over && !p.m.reserved() && p.reaches(closing) {
		p.close()
	}
	p.steps(steps / 2)
}

func (p *play) steps(n int) {
	for ; n > 0 && !p.over; n-- {
		p.step()
	}
}

// step makes a call.
func (p *play) step() {
	if p.m.reserved() {
		p.awaitReservation()
		return
	}
	switch k := p.random.IntN(100); {
	case k < 5:
		p.owe()
	case k < 25:
		p.move(p)
	case k < 45:
		p.request()
	case k < 52:
		p.invalid()
	case k < 67:
		p.release()
	case k < 75:
		p.cancel(k%2 == 0)
	case k < 78:
		p.turnGate()
	case k < 85:
		p.later()
	default:
		if move := p.moves[p.random.IntN(len(p.moves))]; move != nil {
			move(p)
		}
	}
}
