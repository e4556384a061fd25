// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// rdma is a port of an InfiniBand or RoCE device that moved so many words.
func rdma(device, layer, rate, words string) map[string]string {
	dir := "class/infiniband/" + device + "/ports/1/"
	return map[string]string{
		dir + "rate": rate + "\n", dir + "state": "4: ACTIVE\n", dir + "link_layer": layer + "\n",
		dir + "counters/port_xmit_data": words + "\n", dir + "counters/port_rcv_data": words + "\n",
		dir + "counters/link_downed": "2\n",
	}
}

// netdev is an Ethernet interface that is up and moved so many bytes.
func netdev(name, mbit, bytes string) map[string]string {
	dir := "class/net/" + name + "/"
	return map[string]string{
		dir + "type": "1\n", dir + "operstate": "up\n", dir + "speed": mbit + "\n", dir + "carrier_changes": "3\n",
		dir + "statistics/tx_bytes": bytes + "\n", dir + "statistics/rx_bytes": bytes + "\n", dir + "device/vendor": "0x15b3\n",
	}
}

func merged(all ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, m := range all {
		maps.Copy(out, m)
	}
	return out
}

func TestSysfsNet(t *testing.T) {
	now := func() time.Time { return start }
	ib := func(name string, speed float64, bytes uint64) Port {
		return Port{Name: name, Kind: InfiniBand, Up: true, Used: true, Changes: 2, Speed: speed,
			Xmit: reading{bytes, start}, Rcv: reading{bytes, start}}
	}
	eth := func(name string, speed float64, bytes uint64) Port {
		return Port{Name: name, Kind: Ethernet, Up: true, Used: true, Changes: 3, Speed: speed,
			Xmit: reading{bytes, start}, Rcv: reading{bytes, start}}
	}
	unused := func(p Port) Port { p.Used = false; return p }
	roce := func(p Port) Port { p.Kind = RoCE; return p }
	face := func(p Port, of string) Port { p.Twin = of; return p }
	down := func(name string, kind PortKind) Port { return Port{Name: name, Kind: kind, Changes: -1} }
	for name, tc := range map[string]struct {
		files  map[string]string
		choose []string
		want   []Port
		odd    Odd
	}{
		"words of 4 bytes": {rdma("mlx5_0", "InfiniBand", "100 Gb/sec (4X EDR)", "250"), nil,
			[]Port{ib("mlx5_0/1", 12.5e9, 1000)}, Odd{}},
		"a port that is down": {
			merged(rdma("mlx5_0", "InfiniBand", "10 Gb/sec (4X SDR)", "1"), map[string]string{"class/infiniband/mlx5_0/ports/1/state": "1: DOWN\n"}),
			nil, []Port{down("mlx5_0/1", InfiniBand)}, Odd{}},
		"an unknown speed leaves the counters": {rdma("x", "InfiniBand", "fast", "1"), nil,
			[]Port{ib("x/1", 0, 4)}, Odd{"network port speed": 1}},
		"a counter stuck at 32 bits": {rdma("x", "InfiniBand", "56 Gb/sec (4X FDR)", "4294967295"), nil, nil, Odd{"network port counter": 1}},
		"text where a number should be": {rdma("x", "InfiniBand", "56 Gb/sec", "N/A (no PMA)"), nil, nil,
			Odd{"network port counter": 1}},
		"no device at all": {nil, nil, nil, Odd{}},

		"Ethernet where there is nothing else": {netdev("eth0", "25000", "7"), nil, []Port{eth("eth0", 25e9/8, 7)}, Odd{}},
		"slow Ethernet beside fast is management": {merged(netdev("eno1", "1000", "7"), netdev("eth0", "50000", "8"), netdev("eth1", "100000", "9")), nil,
			[]Port{unused(eth("eno1", 125e6, 7)), eth("eth0", 6.25e9, 8), eth("eth1", 12.5e9, 9)}, Odd{}},
		"a virtual machine's port says no speed": {netdev("ens3", "-1", "7"), nil, []Port{eth("ens3", 0, 7)}, Odd{}},
		"an odd speed":                           {netdev("ens3", "4294967295", "7"), nil, []Port{eth("ens3", 0, 7)}, Odd{"network port speed": 1}},
		"not the Ethernet beside InfiniBand": {merged(netdev("eth0", "100000", "7"), rdma("mlx5_0", "InfiniBand", "100 Gb/sec", "1")), nil,
			[]Port{ib("mlx5_0/1", 12.5e9, 4), unused(eth("eth0", 12.5e9, 7))}, Odd{}},
		"interfaces that are no ports": {
			merged(netdev("eth0", "1000", "1"), netdev("vf0", "1000", "2"), netdev("rep0", "1000", "3"), netdev("ib0", "100000", "4"),
				map[string]string{
					"class/net/lo/type": "772\n", "class/net/lo/operstate": "unknown\n",
					"class/net/bond0/type": "1\n", "class/net/bond0/operstate": "up\n",
					"class/net/vf0/device/physfn": "-> ../eth0", "class/net/rep0/phys_port_name": "pf0vf1\n",
					"class/net/ib0/type": "32\n", "class/net/bonding_masters": "bond0\n",
				}), nil, []Port{eth("eth0", 125e6, 1)}, Odd{}},
		"an interface that is down": {
			merged(netdev("eth0", "-1", "7"), map[string]string{"class/net/eth0/operstate": "down\n"}), nil, []Port{down("eth0", Ethernet)}, Odd{}},
		"RoCE and its interface are one port": {
			merged(rdma("mlx5_0", "Ethernet", "25 Gb/sec (1X EDR)", "2"), netdev("eth0", "25000", "100"),
				map[string]string{"class/net/eth0/device/infiniband/mlx5_0/node_guid": "1\n"}), nil,
			[]Port{roce(ib("mlx5_0/1", 3.125e9, 8)), face(eth("eth0", 3.125e9, 100), "mlx5_0/1")}, Odd{}},
		"Ethernet mode of an InfiniBand card": {
			merged(rdma("mlx5_0", "InfiniBand", "100 Gb/sec", "2"), netdev("eth0", "100000", "100"),
				map[string]string{"class/net/eth0/device/infiniband/mlx5_0/node_guid": "1\n"}), nil,
			[]Port{ib("mlx5_0/1", 12.5e9, 8)}, Odd{}},

		"chosen by name": {merged(netdev("eno1", "1000", "7"), netdev("eth0", "50000", "8")), []string{"eno1"},
			[]Port{eth("eno1", 125e6, 7), unused(eth("eth0", 6.25e9, 8))}, Odd{}},
		"chosen by pattern of devices": {merged(rdma("mlx5_0", "InfiniBand", "100 Gb/sec", "1"), rdma("mlx5_1", "InfiniBand", "100 Gb/sec", "2"),
			rdma("mlx4_0", "InfiniBand", "100 Gb/sec", "3")), []string{"mlx5_*"},
			[]Port{unused(ib("mlx4_0/1", 12.5e9, 12)), ib("mlx5_0/1", 12.5e9, 4), ib("mlx5_1/1", 12.5e9, 8)}, Odd{}},
		"one face chosen means both": {
			merged(rdma("mlx5_0", "Ethernet", "25 Gb/sec", "2"), netdev("eth0", "25000", "100"), netdev("eth1", "25000", "9"),
				map[string]string{"class/net/eth0/device/infiniband/mlx5_0/node_guid": "1\n"}), []string{"eth0"},
			[]Port{roce(ib("mlx5_0/1", 3.125e9, 8)), face(eth("eth0", 3.125e9, 100), "mlx5_0/1"), unused(eth("eth1", 3.125e9, 9))}, Odd{}},
	} {
		t.Run(name, func(t *testing.T) {
			odd := Odd{}
			got, err := (&SysfsNet{Root: tree(t, tc.files), Now: now, Choose: tc.choose}).Read(odd)
			if err != nil {
				t.Fatal(err)
			}
			diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(reading{}), cmpopts.EquateEmpty()) + cmp.Diff(tc.odd, odd)
			if diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// Ethernet does not stand in for InfiniBand that has lost its link.
func TestEthernetDoesNotStandIn(t *testing.T) {
	root := tree(t, merged(netdev("eth0", "100000", "7"), rdma("mlx5_0", "InfiniBand", "100 Gb/sec", "1")))
	net := &SysfsNet{Root: root, Now: func() time.Time { return start }}
	used := func() (out []string) {
		ports, err := net.Read(Odd{})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range ports {
			if p.Used {
				out = append(out, p.Name)
			}
		}
		return out
	}
	state := filepath.Join(root, "class", "infiniband", "mlx5_0", "ports", "1", "state")
	for _, tc := range []struct {
		state string
		want  []string
	}{{"4: ACTIVE\n", []string{"mlx5_0/1"}}, {"1: DOWN\n", nil}, {"4: ACTIVE\n", []string{"mlx5_0/1"}}} {
		if err := os.WriteFile(state, []byte(tc.state), 0o600); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, used()); diff != "" {
			t.Errorf("state %q: ports that count (-want +got)\n%s", tc.state, diff)
		}
	}
}

func TestCheckPorts(t *testing.T) {
	for pattern, ok := range map[string]bool{"mlx5_0/1": true, "mlx5_*": true, "eth[0-3]": true, "eth[0": false, "": false} {
		if err := CheckPorts([]string{pattern}); (err == nil) != ok {
			t.Errorf("%q: %v", pattern, err)
		}
	}
}
