package container

import "strings"

// fieldUse is what CheckSpec does with a field. A field that isn't in the
// table is refused when it is set; the fields of a struct are looked at one by one.
type fieldUse uint8

const (
	notBuilt    fieldUse = iota
	built                // acted upon, or its values are checked in refuse_values.go
	walkedList           // a list of structs: each field of each element is looked at
	wholeObject          // an object that asks for something by being there, refused as one
)

// fieldTable lists the leaves of specs.Spec that wolffia acts upon. Only
// scalars, lists of scalars and maps of strings are marked built, so that a
// new field inside a known object is not hidden (a test makes sure).
var fieldTable = []struct {
	schema string
	use    fieldUse
}{
	{"ociVersion", built},
	{"hostname", built},
	{"annotations", built}, // for other programs: the spec lets a runtime ignore them
	{"root.path", built},
	{"root.readonly", built},

	{"process.terminal", built},           // with a note
	{"process.consoleSize.height", built}, // only means something with terminal
	{"process.consoleSize.width", built},
	{"process.user.uid", built},
	{"process.user.gid", built},
	{"process.user.umask", built},
	{"process.user.additionalGids", built},
	{"process.args", built},
	{"process.env", built},
	{"process.cwd", built},
	{"process.capabilities.bounding", built},
	{"process.capabilities.effective", built},
	{"process.capabilities.inheritable", built},
	{"process.capabilities.permitted", built},
	{"process.capabilities.ambient", built},
	{"process.rlimits", walkedList},
	{"process.rlimits[].type", built},
	{"process.rlimits[].hard", built},
	{"process.rlimits[].soft", built},
	{"process.noNewPrivileges", built},
	{"process.oomScoreAdj", built}, // 0 only

	{"mounts", walkedList},
	{"mounts[].destination", built},
	{"mounts[].type", built},
	{"mounts[].source", built},
	{"mounts[].options", built},
	{"mounts[].uidMappings", walkedList},
	{"mounts[].uidMappings[].containerID", built},
	{"mounts[].uidMappings[].hostID", built},
	{"mounts[].uidMappings[].size", built},
	{"mounts[].gidMappings", walkedList},
	{"mounts[].gidMappings[].containerID", built},
	{"mounts[].gidMappings[].hostID", built},
	{"mounts[].gidMappings[].size", built},

	{"linux.namespaces", walkedList},
	{"linux.namespaces[].type", built},
	{"linux.uidMappings", walkedList},
	{"linux.uidMappings[].containerID", built},
	{"linux.uidMappings[].hostID", built},
	{"linux.uidMappings[].size", built},
	{"linux.gidMappings", walkedList},
	{"linux.gidMappings[].containerID", built},
	{"linux.gidMappings[].hostID", built},
	{"linux.gidMappings[].size", built},
	{"linux.maskedPaths", built},
	{"linux.readonlyPaths", built},
	{"linux.rootfsPropagation", built},
	{"linux.cgroupsPath", built},
	{"linux.resources.memory.limit", built},
	{"linux.resources.memory.reservation", built},
	{"linux.resources.memory.swap", built},
	{"linux.resources.memory.kernel", built},
	{"linux.resources.memory.kernelTCP", built},
	{"linux.resources.memory.swappiness", built},
	{"linux.resources.memory.disableOOMKiller", built},
	{"linux.resources.cpu.shares", built},
	{"linux.resources.cpu.quota", built},
	{"linux.resources.cpu.burst", built},
	{"linux.resources.cpu.period", built},
	{"linux.resources.cpu.realtimeRuntime", built},
	{"linux.resources.cpu.realtimePeriod", built},
	{"linux.resources.cpu.cpus", built},
	{"linux.resources.cpu.mems", built},
	{"linux.resources.cpu.idle", built},
	{"linux.resources.pids.limit", built},
	{"linux.resources.blockIO.weight", built},
	{"linux.resources.blockIO.leafWeight", built},
	{"linux.resources.blockIO.weightDevice", walkedList},
	{"linux.resources.blockIO.weightDevice[].major", built},
	{"linux.resources.blockIO.weightDevice[].minor", built},
	{"linux.resources.blockIO.weightDevice[].weight", built},
	{"linux.resources.blockIO.weightDevice[].leafWeight", built},
	{"linux.resources.blockIO.throttleReadBpsDevice", walkedList},
	{"linux.resources.blockIO.throttleReadBpsDevice[].major", built},
	{"linux.resources.blockIO.throttleReadBpsDevice[].minor", built},
	{"linux.resources.blockIO.throttleReadBpsDevice[].rate", built},
	{"linux.resources.blockIO.throttleWriteBpsDevice", walkedList},
	{"linux.resources.blockIO.throttleWriteBpsDevice[].major", built},
	{"linux.resources.blockIO.throttleWriteBpsDevice[].minor", built},
	{"linux.resources.blockIO.throttleWriteBpsDevice[].rate", built},
	{"linux.resources.blockIO.throttleReadIOPSDevice", walkedList},
	{"linux.resources.blockIO.throttleReadIOPSDevice[].major", built},
	{"linux.resources.blockIO.throttleReadIOPSDevice[].minor", built},
	{"linux.resources.blockIO.throttleReadIOPSDevice[].rate", built},
	{"linux.resources.blockIO.throttleWriteIOPSDevice", walkedList},
	{"linux.resources.blockIO.throttleWriteIOPSDevice[].major", built},
	{"linux.resources.blockIO.throttleWriteIOPSDevice[].minor", built},
	{"linux.resources.blockIO.throttleWriteIOPSDevice[].rate", built},
	{"linux.resources.hugepageLimits", walkedList},
	{"linux.resources.hugepageLimits[].pageSize", built},
	{"linux.resources.hugepageLimits[].limit", built},
	{"linux.resources.unified", built},
	{"linux.resources.devices", walkedList},
	{"linux.resources.devices[].allow", built}, // false only
	{"linux.resources.devices[].type", built},
	{"linux.resources.devices[].major", built},
	{"linux.resources.devices[].minor", built},
	{"linux.resources.devices[].access", built},

	{"process.scheduler", wholeObject},
	{"process.ioPriority", wholeObject},
	{"process.execCPUAffinity", wholeObject},
	{"linux.seccomp", wholeObject},
	{"linux.intelRdt", wholeObject}, // even {} makes a resctrl group
	{"linux.memoryPolicy", wholeObject},
	{"linux.personality", wholeObject},
	{"solaris", wholeObject},
	{"windows", wholeObject},
	{"vm", wholeObject},
	{"zos", wholeObject},
	{"freebsd", wholeObject},
}

// useOf is the table's word on a field.
func useOf(schema string) fieldUse {
	for _, f := range fieldTable {
		if f.schema == schema {
			return f.use
		}
	}
	return notBuilt
}

// refusal says why a field is refused and what to do. The order matters: the
// first prefix that fits is taken.
func refusal(schema string) (what, remedy string) {
	const remove = "remove it from config.json"
	for _, r := range []struct{ prefix, what, remedy string }{
		{"domainname", "setdomainname(2) is not built yet", remove},
		{"hooks.", "hooks are not built yet", remove + ", and run the commands around wolffia"},
		{"process.user.username", "user names are for Windows", "name the user by process.user.uid and gid"},
		{"process.commandLine", "command lines are for Windows", "write the command as process.args"},
		{"process.apparmorProfile", "AppArmor profiles are not built yet", remove},
		{"process.selinuxLabel", "SELinux labels are not built yet", remove},
		{"process.scheduler", "sched_setattr(2) is not built yet", remove + ", and start wolffia with chrt(1)"},
		{"process.ioPriority", "ioprio_set(2) is not built yet", remove + ", and start wolffia with ionice(1)"},
		{"process.execCPUAffinity", "CPU affinity is not built yet", remove + ", and start wolffia with taskset(1)"},
		{"linux.namespaces[].path", "joining a namespace is not built yet", "remove the path, so that a new namespace is made"},
		{"linux.resources.memory.useHierarchy", "memory is always counted with what is below since Linux 5.11", remove},
		{"linux.resources.memory.checkBeforeUpdate", "the limits of a running container can't be changed yet, so there is no update to check", remove},
		{"linux.resources.network", "network classes and priorities are cgroup v1's net_cls and net_prio, which cgroup v2 replaced by tc(8) and nftables", remove},
		{"linux.resources.rdma", "RDMA limits have no field of their own here yet", `write {"rdma.max": "DEVICE hca_handle=N"} under linux.resources.unified`},
		{"linux.resources.", "this limit is not built yet", remove + ", and start wolffia in a cgroup that has the limit"},
		{"linux.seccomp", "seccomp filters are not built yet", remove + "; no_new_privs, the capabilities and the user namespace still hold"},
		{"linux.devices", "own device nodes are not built yet (mknod(2) is refused in a user namespace)", remove + ", and bind the host's device by an entry in mounts"},
		{"linux.netDevices", "moving network devices is not built yet", remove},
		{"linux.sysctl", "setting sysctls is not built yet", remove + ", and set them in the container's command"},
		{"linux.mountLabel", "SELinux labels are not built yet", remove},
		{"linux.intelRdt", "Intel RDT is not built yet", remove},
		{"linux.memoryPolicy", "set_mempolicy(2) is not built yet", remove + ", and start wolffia with numactl(8)"},
		{"linux.personality", "personality(2) is not built yet", remove + ", and start wolffia with setarch(8)"},
		{"linux.timeOffsets", "time namespaces are not built yet", remove},
		{"solaris", "this is for Solaris", remove},
		{"windows", "this is for Windows", remove},
		{"vm", "virtual machines are not what wolffia starts", remove},
		{"zos", "this is for z/OS", remove},
		{"freebsd", "this is for FreeBSD", remove},
	} {
		if strings.HasPrefix(schema, r.prefix) {
			return r.what, r.remedy
		}
	}
	return "this field is not built yet", remove
}
