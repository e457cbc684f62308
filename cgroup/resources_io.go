package cgroup

import (
	"fmt"
	"strconv"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// blockIO: the weights go to io.weight, where crun prefers io.bfq.weight: that
// file is there only while some disk uses the BFQ scheduler.
func (p *specParser) blockIO(b *specs.LinuxBlockIO) {
	if b == nil {
		return
	}
	const path = "linux.resources.blockIO."
	if b.Weight != nil && *b.Weight != 0 {
		v1 := strconv.FormatUint(uint64(*b.Weight), 10)
		p.add(one("io.weight", path+"weight "+v1, "default "+strconv.FormatUint(BlkioToIOWeight(*b.Weight), 10), Setting{"blkio.bfq.weight", v1}), nil)
	}
	for _, w := range b.WeightDevice {
		if w.Weight != nil && *w.Weight != 0 {
			device, v1 := deviceNumber(w.Major, w.Minor), strconv.FormatUint(uint64(*w.Weight), 10)
			p.add(device.limit("io.weight", path+"weightDevice", strconv.FormatUint(BlkioToIOWeight(*w.Weight), 10), "blkio.bfq.weight_device", v1), nil)
		}
	}
	if b.LeafWeight != nil && *b.LeafWeight != 0 {
		p.refuse("blockIO.leafWeight", strconv.FormatUint(uint64(*b.LeafWeight), 10), "the CFQ scheduler, which had it, went with Linux 5.0", "remove it from config.json")
	}
	for _, t := range []struct {
		name, key, file string
		list            []specs.LinuxThrottleDevice
	}{
		{"throttleReadBpsDevice", "rbps", "read_bps", b.ThrottleReadBpsDevice},
		{"throttleWriteBpsDevice", "wbps", "write_bps", b.ThrottleWriteBpsDevice},
		{"throttleReadIOPSDevice", "riops", "read_iops", b.ThrottleReadIOPSDevice},
		{"throttleWriteIOPSDevice", "wiops", "write_iops", b.ThrottleWriteIOPSDevice},
	} {
		for _, d := range t.list {
			rate := strconv.FormatUint(d.Rate, 10)
			v2 := t.key + "=" + rate
			if d.Rate == 0 {
				v2 = t.key + "=max" // 0 takes a limit away in v1
			}
			p.add(deviceNumber(d.Major, d.Minor).limit("io.max", path+t.name, v2, "blkio.throttle."+t.file+"_device", rate), nil)
		}
	}
}

type device string

func deviceNumber(major, minor int64) device { return device(fmt.Sprintf("%d:%d", major, minor)) }

// limit is one for a single device: a file has a line for each.
func (d device) limit(file, what, v2, v1File, v1 string) Limit {
	return Limit{Key: file + " " + string(d) + " " + v1File, Asked: what + " " + string(d) + " " + v1,
		V2: []Setting{{file, string(d) + " " + v2}}, V1: []Setting{{v1File, string(d) + " " + v1}}}
}

// hugepages: the page size is spelled as the kernel does in the files' names (2MB).
func (p *specParser) hugepages(list []specs.LinuxHugepageLimit) {
	for _, h := range list {
		if h.Pagesize == "" || notName(h.Pagesize) {
			p.refuse("hugepageLimits", h.Pagesize, "this is no size of a huge page", "write it as the folders of /sys/kernel/mm/hugepages: 2MB, 1GB")
			continue
		}
		value := strconv.FormatUint(h.Limit, 10)
		p.add(one("hugetlb."+h.Pagesize+".max", "linux.resources.hugepageLimits "+h.Pagesize+" "+value, value,
			Setting{"hugetlb." + h.Pagesize + ".limit_in_bytes", value}), nil)
	}
}

func notName(s string) bool {
	for _, r := range s {
		if notOfName(r) || r == '.' {
			return true
		}
	}
	return false
}

func (p *specParser) rdma(device string, r specs.LinuxRdma) {
	value := device
	if r.HcaHandles != nil {
		value += " hca_handle=" + strconv.FormatUint(uint64(*r.HcaHandles), 10)
	}
	if r.HcaObjects != nil {
		value += " hca_object=" + strconv.FormatUint(uint64(*r.HcaObjects), 10)
	}
	if value == device || device == "" || notName(device) {
		p.refuse("rdma", device, "nothing is limited, or this is no device's name", "remove it from config.json")
		return
	}
	p.add(Limit{Key: "rdma.max " + device, Asked: "linux.resources.rdma " + value,
		V2: []Setting{{"rdma.max", value}}, V1: []Setting{{"rdma.max", value}}}, nil)
}
