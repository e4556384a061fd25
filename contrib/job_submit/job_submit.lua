-- SPDX-License-Identifier: Apache-2.0
--
-- An optional grace window for rifling: a GPU job that fits when it is submitted
-- starts before rifling sees it. This gives such a job a begin time some seconds
-- ahead, in which riflingd can choose its nodes. The begin time expires by
-- itself: with riflingd dead, a job starts that much later and nothing worse.
--
-- Set JobSubmitPlugins=lua in slurm.conf, put this file beside it, call
-- `scontrol reconfigure` (restart slurmctld up to 23.02), and set limits.grace in
-- rifling.yaml to the same time or more. A site with a job_submit.lua of its own
-- takes over what stands in slurm_job_submit. See README.md beside this file.

-- Seconds: two of riflingd's intervals. 0 switches the window off.
local GRACE = 30
-- Partitions that rifling steers; empty: all.
local PARTITIONS = {}
-- The word of manage.opt-out.
local OPT_OUT = "rifling=off"

-- wants_gpu tells whether a request (tres_per_job and the like) names GPUs, in
-- the forms of all releases: "gpu:2", "gres:gpu:2", "gres/gpu:a100=2".
local function wants_gpu(job)
	for _, key in ipairs({ "tres_per_node", "tres_per_job", "tres_per_task", "tres_per_socket", "gres" }) do
		local ok, text = pcall(function() return job[key] end)
		if ok and text and string.find("," .. text, "[,/:]gpu") then
			return true
		end
	end
	return false
end

-- steered tells whether the job may go to one of the partitions above.
local function steered(job)
	if #PARTITIONS == 0 then
		return true
	end
	for name in string.gmatch(job.partition or job.default_partition or "", "[^,]+") do
		for _, p in ipairs(PARTITIONS) do
			if p == name then
				return true
			end
		end
	end
	return false
end

-- has_window: only batch jobs, for nobody waits at a terminal for them, and only
-- jobs whose user said neither when nor where.
local function has_window(job)
	return GRACE > 0
		and job.script ~= nil and job.script ~= ""
		and (job.begin_time == nil or job.begin_time == 0)
		and (job.req_nodes == nil or job.req_nodes == "")
		and (job.reservation == nil or job.reservation == "")
		and (job.dependency == nil or job.dependency == "")
		and not string.find(job.comment or "", OPT_OUT, 1, true)
		and wants_gpu(job) and steered(job)
end

function slurm_job_submit(job, part_list, submit_uid)
	-- A fault here must never keep a job out.
	local ok, yes = pcall(has_window, job)
	if ok and yes then
		job.begin_time = os.time() + GRACE
	elseif not ok then
		slurm.log_error("job_submit: rifling's grace window: %s", tostring(yes))
	end
	return slurm.SUCCESS
end

function slurm_job_modify(job, job_rec, part_list, modify_uid)
	return slurm.SUCCESS
end

return slurm.SUCCESS
