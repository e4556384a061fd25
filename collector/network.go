// SPDX-License-Identifier: Apache-2.0

package collector

// network is what a node's ports did in an interval.
type network struct {
	rate  float64 // bytes per second in the busier direction, over all ports that count
	speed float64 // what they carry; 0 when that of one is not known
	known bool    // false: nothing is known of the network in this interval
	ports []PortView
}

// portRate is one port's rate in each direction.
type portRate struct {
	xmit, rcv float64
	ok        bool
}

// readNetwork reads the ports. One that counts and has no rate leaves the node
// without one, and so does one that was lost since the last reading.
func (s *Sampler) readNetwork() (network, error) {
	ports, err := s.Net.Read(s.Odd)
	if err != nil {
		return network{}, err
	}
	n := network{ports: make([]PortView, len(ports))}
	rates := make(map[string]portRate, len(ports))
	for i := range ports {
		p := &ports[i]
		r := s.portRate(p)
		rates[p.Name] = r
		n.ports[i] = PortView{Name: p.Name, Kind: p.Kind, Up: p.Up, Used: p.Used, Twin: p.Twin, Speed: p.Speed,
			XmitRate: r.xmit, RcvRate: r.rcv, Known: r.ok}
	}
	lost := s.lostPort(ports)
	faces := otherFaces(ports)
	var xmit, rcv float64
	used, known, speedKnown := 0, !lost, true
	for i := range ports {
		p := &ports[i]
		if !p.Used || faces[p.Twin] == p.Name {
			continue
		}
		r := rates[p.Name]
		if twin, ok := faces[p.Name]; ok && rates[twin].ok {
			t := rates[twin]
			r.xmit, r.rcv = max(r.xmit, t.xmit), max(r.rcv, t.rcv)
		}
		used++
		xmit, rcv, n.speed = xmit+r.xmit, rcv+r.rcv, n.speed+p.Speed
		known, speedKnown = known && r.ok, speedKnown && p.Speed > 0
	}
	if n.known = known && used > 0; !n.known {
		n.speed = 0
		return n, nil
	}
	if !speedKnown {
		n.speed = 0
	}
	n.rate = max(xmit, rcv)
	return n, nil
}

// portRate reads a port's meters, of ports that do not count too, so that they
// keep up.
func (s *Sampler) portRate(p *Port) portRate {
	if !p.Up {
		delete(s.meters, p.Name+"/xmit")
		delete(s.meters, p.Name+"/rcv")
		return portRate{}
	}
	if before, ok := s.changes[p.Name]; ok && p.Changes >= 0 && before != p.Changes {
		s.Odd["network port flapped"]++
	}
	s.changes[p.Name] = p.Changes
	x, ok1 := s.meter(p.Name+"/xmit").rate(p.Xmit, p.Speed, "network", s.Odd)
	r, ok2 := s.meter(p.Name+"/rcv").rate(p.Rcv, p.Speed, "network", s.Odd)
	return portRate{x, r, ok1 && ok2}
}

// lostPort reports whether a port that counted at the last reading is down or
// gone: what it moved in the interval is not known.
func (s *Sampler) lostPort(ports []Port) bool {
	used := map[string]bool{}
	for i := range ports {
		if ports[i].Used {
			used[ports[i].Name] = true
		}
	}
	lost := false
	for name := range s.used {
		if !used[name] {
			s.Odd["network port lost"]++
			lost = true
		}
	}
	s.used = used
	return lost
}

// otherFaces tells the interface of each RoCE port that counts with it.
func otherFaces(ports []Port) map[string]string {
	out := map[string]string{}
	for i := range ports {
		if p := &ports[i]; p.Twin != "" && p.Used && usedPort(ports, p.Twin) {
			out[p.Twin] = p.Name
		}
	}
	return out
}
