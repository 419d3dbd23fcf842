# %% [markdown]
# # Which AllGather, and why
# Cells of a notebook: Jupyter (with jupytext), VS Code and Spyder run them one by one and show the value of each; tests
# run them with python3 alone. `ccllab` is the package of this folder's parent.

# %%
import ccllab

cluster = ccllab.topology("heteccl-h20-4+8")
cluster

# %% [markdown]
# Who is fastest at which size? The value is a table and is shown as curves with the winners below.

# %%
table = ccllab.compare(cluster, "allgather", "64K:1G:16", ["nccl", "ring", "hm"])
table

# %%
# pandas.DataFrame(table.rows) takes it, too.
fastest = min(table.rows, key=lambda row: row["gap"])
print(f"{fastest['name']} comes nearest to the bound: {fastest['gap']:.2f} of it at {fastest['size_bytes']:.0f} bytes")

# %% [markdown]
# One run over time: what every thread block did.

# %%
schedule = ccllab.synthesize(cluster, "allgather", "hm", "64M")
program = schedule.lower(cluster, "64M")
run = ccllab.simulate(cluster, program, "64M")
run

# %%
run.timeline(rows="link")

# %% [markdown]
# What would a slower NIC cost?

# %%
slower = ccllab.simulate(cluster.edit("degrade:nic:0=50%"), program, "64M")
print(f"{slower.time_s / run.time_s:.2f} of the time")
slower.draw()
