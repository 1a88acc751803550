# Where the time of a step went.
if(NOT TARGET skerry_step_paths)
  skerry_library(step_paths
    SOURCES
      ${CMAKE_CURRENT_LIST_DIR}/step_clocks.cc
      ${CMAKE_CURRENT_LIST_DIR}/step_json.cc
      ${CMAKE_CURRENT_LIST_DIR}/step_paths.cc
    DEPS skerry::message nlohmann_json::nlohmann_json)
endif()

# The report of a run: events.jsonl folded into numbers, JSON and one self-contained page.
if(NOT TARGET skerry_report)
  skerry_library(report
    SOURCES
      ${CMAKE_CURRENT_LIST_DIR}/chart.cc
      ${CMAKE_CURRENT_LIST_DIR}/explain.cc
      ${CMAKE_CURRENT_LIST_DIR}/gantt_chart.cc
      ${CMAKE_CURRENT_LIST_DIR}/page.cc
      ${CMAKE_CURRENT_LIST_DIR}/report.cc
      ${CMAKE_CURRENT_LIST_DIR}/report_events.cc
      ${CMAKE_CURRENT_LIST_DIR}/report_event_people.cc
      ${CMAKE_CURRENT_LIST_DIR}/report_event_rounds.cc
      ${CMAKE_CURRENT_LIST_DIR}/report_chart.cc
      ${CMAKE_CURRENT_LIST_DIR}/report_tables.cc
      ${CMAKE_CURRENT_LIST_DIR}/report_html.cc
      ${CMAKE_CURRENT_LIST_DIR}/report_links.cc
      ${CMAKE_CURRENT_LIST_DIR}/report_rounds.cc
      ${CMAKE_CURRENT_LIST_DIR}/report_series.cc
      ${CMAKE_CURRENT_LIST_DIR}/run_trace.cc
    DEPS skerry::common skerry::model_io skerry::step_paths nlohmann_json::nlohmann_json)
  target_compile_definitions(skerry_report PRIVATE SKERRY_VERSION="${PROJECT_VERSION}")
endif()
