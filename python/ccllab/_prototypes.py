"""Functions of the C library that the package calls, as the headers declare them (see _structs.py)."""

PROTOTYPES = """
const char *ccl_status_meaning(ccl_status_t status);
int ccl_status_exit_code(ccl_status_t status);
ccl_status_t ccl_parse_bytes(const char *text, double *bytes_out, ccl_error_t *err);
void ccl_text_fini(ccl_text_t *text);
const ccl_option_t *ccl_option_find(const ccl_option_t *table, const char *name, size_t len);
ccl_status_t ccl_option_parse(const ccl_option_t *option, const char *text, void *options, ccl_error_t
    *err);
ccl_status_t ccl_json_parse(const char *name, const char *text, size_t len, ccl_json_doc_t *out, ccl_error_t
    *err);
ccl_status_t ccl_json_read(const char *path, ccl_json_doc_t *out, ccl_error_t *err);
void ccl_json_fini(ccl_json_doc_t *doc);
const char *ccl_nearest(const char *word, const char *const *candidates);
ccl_status_t ccl_topology_read(const ccl_ctx_t *ctx, const char *spec, ccl_topology_t **out, ccl_error_t
    *err);
ccl_status_t ccl_topology_read_text(const ccl_ctx_t *ctx, const char *name, const char *text, size_t len,
    ccl_topology_t **out, ccl_error_t *err);
ccl_status_t ccl_topology_write_json(const ccl_topology_t *topo, ccl_text_t *out, ccl_error_t *err);
ccl_status_t ccl_topology_edit(const ccl_topology_t *topo, const char *edit, ccl_topology_t **out,
    ccl_error_t *err);
void ccl_topology_destroy(ccl_topology_t *topo);
const ccl_library_entry_t *ccl_topology_library(void);
ccl_routes_t *ccl_routes_create(const ccl_topology_t *topo);
void ccl_routes_destroy(ccl_routes_t *routes);
ccl_status_t ccl_profile_read(const char *spec, ccl_profile_t **out, ccl_error_t *err);
ccl_status_t ccl_profile_for(const ccl_topology_t *topo, ccl_profile_t **out, ccl_error_t *err);
ccl_status_t ccl_profile_apply(const ccl_ctx_t *ctx, const ccl_profile_t *profile, const ccl_topology_t
    *topo, ccl_topology_t **out, ccl_error_t *err);
void ccl_profile_destroy(ccl_profile_t *profile);
ccl_status_t ccl_collective_kind_parse(const char *text, ccl_collective_kind_t *out, ccl_error_t *err);
bool ccl_collective_kind_is_rooted(ccl_collective_kind_t kind);
ccl_status_t ccl_collective_create(ccl_collective_kind_t kind, uint32_t nranks, uint32_t chunks_per_block,
    uint32_t root, ccl_collective_t **out, ccl_error_t *err);
ccl_status_t ccl_demand_read(const char *path, ccl_collective_t **out, ccl_error_t *err);
ccl_status_t ccl_demand_read_text(const char *name, const char *text, size_t len, ccl_collective_t **out,
    ccl_error_t *err);
void ccl_collective_destroy(ccl_collective_t *coll);
ccl_status_t ccl_schedule_read_json(const char *name, const char *text, size_t len, ccl_schedule_t **out,
    ccl_error_t *err);
ccl_status_t ccl_schedule_read_resccl(const char *name, const char *text, size_t len, ccl_schedule_t **out,
    ccl_error_t *err);
ccl_status_t ccl_schedule_write_json(const ccl_schedule_t *schedule, ccl_text_t *out, ccl_error_t *err);
void ccl_schedule_destroy(ccl_schedule_t *schedule);
ccl_status_t ccl_program_read_xml(const char *name, const char *text, size_t len, ccl_program_t **out,
    ccl_error_t *err);
bool ccl_program_is_mscclpp(const char *text, size_t len);
ccl_status_t ccl_program_read_mscclpp(const char *name, const char *text, size_t len, ccl_program_t **out,
    ccl_error_t *err);
ccl_status_t ccl_program_write_xml(const ccl_program_t *program, ccl_text_t *out, ccl_error_t *err);
ccl_status_t ccl_program_write_mscclpp(const ccl_program_t *program, const ccl_topology_t *topo, ccl_text_t
    *out, ccl_error_t *err);
void ccl_program_destroy(ccl_program_t *program);
void ccl_origin_file(ccl_origin_t origin, const char *path);
const char *ccl_primitive_name(ccl_primitive_t prim);
ccl_status_t ccl_schedule_verify(const ccl_ctx_t *ctx, const ccl_schedule_t *schedule, ccl_verdict_t *out,
    ccl_error_t *err);
ccl_status_t ccl_program_verify(const ccl_ctx_t *ctx, const ccl_program_t *program, const
    ccl_verify_options_t *options, ccl_verdict_t *out, ccl_error_t *err);
ccl_status_t ccl_bound(const ccl_ctx_t *ctx, const ccl_topology_t *topo, const ccl_collective_t *coll, const
    ccl_bound_options_t *options, ccl_bound_t *out, ccl_error_t *err);
void ccl_bound_fini(ccl_bound_t *bound);
ccl_status_t ccl_sim_program(const ccl_ctx_t *ctx, const ccl_topology_t *topo, ccl_routes_t *routes, const
    ccl_program_t *program, const ccl_sim_options_t *options, ccl_sim_result_t **out, ccl_error_t *err);
void ccl_sim_result_destroy(ccl_sim_result_t *result);
ccl_trace_t *ccl_trace_create(uint64_t max_events);
void ccl_trace_destroy(ccl_trace_t *trace);
void ccl_trace_keep(ccl_trace_t *trace, bool passes, bool slices);
ccl_status_t ccl_lower(const ccl_ctx_t *ctx, const ccl_schedule_t *schedule, const ccl_lower_options_t
    *options, ccl_program_t **out, ccl_error_t *err);
const ccl_synth_ops_t *const *ccl_synth_all(void);
const ccl_synth_ops_t *ccl_synth_find(const char *name);
bool ccl_synth_takes_part(const ccl_synth_ops_t *ops, const ccl_topology_t *topo);
ccl_status_t ccl_plugin_load(const char *path, ccl_error_t *err);
const ccl_option_t *ccl_synth_option_table(uint32_t index);
ccl_status_t ccl_synthesize(const ccl_ctx_t *ctx, const char *name, const ccl_topology_t *topo, ccl_routes_t
    *routes, const ccl_collective_t *want, const ccl_synth_options_t *options, ccl_schedule_t **out,
    ccl_error_t *err);
ccl_status_t ccl_make_proven(const ccl_ctx_t *ctx, const ccl_program_t *program, ccl_granularity_t
    granularity, ccl_executor_t executor, ccl_status_t wrong, ccl_error_t *err);
ccl_status_t ccl_nccl_library(const ccl_topology_t *topo, const char **out, ccl_error_t *err);
const char *ccl_notebook_tool(void);
ccl_status_t ccl_notebook_open(const char *path, bool write, ccl_notebook_t **out, ccl_error_t *err);
void ccl_notebook_close(ccl_notebook_t *notebook);
const char *ccl_compare_untold(const ccl_compare_options_t *options);
ccl_status_t ccl_compare(const ccl_ctx_t *ctx, const ccl_topology_t *topo, const ccl_collective_t *want,
    const ccl_compare_options_t *options, ccl_comparison_t **out, ccl_error_t *err);
void ccl_comparison_destroy(ccl_comparison_t *comparison);
ccl_status_t ccl_draw_topology(const ccl_topology_t *topo, const ccl_draw_topology_options_t *options,
    ccl_picture_t **out, ccl_error_t *err);
ccl_status_t ccl_draw_timeline(const ccl_topology_t *topo, const ccl_program_t *program, const
    ccl_sim_result_t *result, const ccl_trace_t *trace, const ccl_draw_timeline_options_t *options,
    ccl_picture_t **out, ccl_error_t *err);
void ccl_picture_destroy(ccl_picture_t *picture);
ccl_status_t ccl_picture_write(const ccl_picture_t *picture, ccl_draw_format_t format, uint32_t width_px,
    ccl_text_t *out, ccl_error_t *err);
ccl_status_t ccl_picture_write_inline(const ccl_picture_t *picture, bool wide, ccl_text_t *out, ccl_error_t
    *err);
ccl_status_t ccl_report_topology(const ccl_topology_t *topo, ccl_routes_t *routes, const ccl_report_style_t
    *style, ccl_text_t *out, ccl_error_t *err);
ccl_status_t ccl_report_verdict(const ccl_report_verdict_t *verdict, const ccl_report_style_t *style,
    ccl_text_t *out, ccl_error_t *err);
ccl_status_t ccl_report_bounds(const ccl_report_bounds_t *bounds, const ccl_report_style_t *style,
    ccl_text_t *out, ccl_error_t *err);
ccl_status_t ccl_report_simulation(const ccl_report_run_t *run, const ccl_report_style_t *style, ccl_text_t
    *out, ccl_error_t *err);
ccl_status_t ccl_report_comparison(const ccl_report_comparison_t *comparison, const ccl_report_style_t
    *style, ccl_text_t *out, ccl_error_t *err);
ccl_status_t ccl_report_schema(const char *name, const ccl_report_style_t *style, ccl_text_t *out,
    ccl_error_t *err);
ccl_status_t ccl_report_draw_busbw(const ccl_json_doc_t *docs, uint32_t ndocs, ccl_picture_t **out,
    ccl_error_t *err);
ccl_status_t ccl_report_page(const ccl_report_page_t *page, ccl_text_t *out, ccl_error_t *err);
"""
